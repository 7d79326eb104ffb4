"""PyTorch in a process of its own, which imports it, reads the weights and answers while this one writes the export.

What it is asked comes pickled on stdin, what it answers goes pickled to stdout.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from signal import SIGINT, SIGKILL, SIGTERM, Signals
from subprocess import PIPE, Popen
from tempfile import TemporaryFile
from threading import Thread
from typing import TYPE_CHECKING

from archspec.errors import ArchspecError, UsageError
from archspec.exporters.files import temporary_folder

if TYPE_CHECKING:
    from archspec.ops.model import Model

    from .questions import Answer, Question
    from .weights import Weights


class Apart:
    """The near end. `ask` once, then take the `answers`."""

    def __init__(self) -> None:
        self._said = TemporaryFile(dir=temporary_folder())  # noqa: SIM115  closed by `close`
        where = {
            "OMP_WAIT_POLICY": "passive",  # a thread that waits leaves its core to those that write
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        # `-P`: what lies in the current folder is not what is meant
        command = (sys.executable, "-P", "-m", __name__)
        self.child = Popen(command, stdin=PIPE, stdout=PIPE, stderr=self._said, env=where)

    def ask(self, model: Model, weights: Weights, questions: Sequence[Question]) -> None:
        """What a model with these weights says to the questions."""
        assert self.child.stdin is not None
        with suppress(BrokenPipeError):  # it has ended: `answers` says why
            pickle.dump(pickle.dumps((model, weights, questions)), self.child.stdin)
            self.child.stdin.flush()

    def answers(self) -> list[tuple[Answer, Answer]]:
        """As `answers.answers` gives them. Raises what it raised there, and UsageError where the process was killed."""
        assert self.child.stdout is not None
        try:
            found: list[tuple[Answer, Answer]] | ArchspecError = pickle.load(self.child.stdout)
        except (EOFError, pickle.UnpicklingError):
            raise self._ended() from None
        if isinstance(found, ArchspecError):
            raise found
        return found

    def _ended(self) -> Exception:
        code = self.child.wait()
        if code == -SIGKILL:
            told = "The process that ran PyTorch was killed, as a machine does that is out of memory."
            return UsageError(told, "export it without a verification (--no-verify), or on a larger machine")
        if code in (-SIGTERM, -SIGINT):
            return UsageError(f"The process that ran PyTorch was ended by {Signals(-code).name}.", "export it again")
        self._said.seek(0)
        return RuntimeError(f"The process that ran PyTorch ended:\n{self._said.read().decode(errors='replace')}")

    def close(self) -> None:
        """End the process, whatever it does."""
        with suppress(BrokenPipeError), self.child:
            self.child.kill()
        self._said.close()


@contextmanager
def apart(wanted: bool) -> Iterator[Apart | None]:
    """A process for PyTorch, where it is wanted and PyTorch is not here already."""
    if not wanted or "torch" in sys.modules:
        yield None
        return
    process = Apart()
    try:
        yield process
    finally:
        process.close()


def _listen(asked: SimpleQueue[bytes]) -> None:
    """Take the question at once, so that nobody waits, and end with the process that asked it."""
    try:
        with open(0, "rb", closefd=False) as given:  # not sys.stdin, whose lock Python wants when it ends
            asked.put(pickle.load(given))
            given.read(1)  # nothing comes but the end
    finally:
        os._exit(1)


def main() -> None:
    """The far end."""
    gc.disable()  # modules that load leave no garbage, and it does not live long
    asked: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_listen, args=(asked,), daemon=True).start()
    out, sys.stdout = sys.stdout.buffer, sys.stderr
    try:
        from .answers import answers, loaded  # imports torch, which takes a second

        model, weights, questions = pickle.loads(asked.get())
        found: object = answers(loaded(model, weights), questions)
    except ArchspecError as error:
        found = error
    except ImportError as error:
        found = UsageError(f"PyTorch cannot be imported: {error}", "install it again, or export with --no-verify")
    pickle.dump(found, out, pickle.HIGHEST_PROTOCOL)
    out.flush()


if __name__ == "__main__":
    main()
