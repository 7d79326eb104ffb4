"""The near end: starting the process of an engine, and calling it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from tempfile import TemporaryFile
from typing import Any, Self

from archspec.errors import ArchspecError
from archspec.exporters.files import temporary_folder

#: The engines of archspec itself. `-P`: what lies in the current folder is not what is meant.
OWN = (sys.executable, "-P", "-m", "archspec.exporters.bench.engines")

#: Seconds that an engine is given to end by itself.
PATIENCE = 10


class BenchError(ArchspecError):
    """Something that was to be measured could not run."""


class Process:
    """An engine in a process of its own. It is idle, and waits for a line, unless a call is in flight."""

    def __init__(
        self, name: str, command: Sequence[str] = OWN, environment: Mapping[str, str] | None = None, remedy: str = ""
    ) -> None:
        self.name, self._remedy = name, remedy
        place = temporary_folder()
        self._said = TemporaryFile("w+", encoding="utf-8", errors="replace", dir=place)  # noqa: SIM115  closed by `close`
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            encoding="utf-8",
            env=environment,
        )

    def call(self, method: str, **given: Any) -> Any:
        """Raises BenchError with what the engine says where it cannot."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with suppress(BrokenPipeError):  # it has ended: what it said is read below
            self._child.stdin.write(json.dumps({"method": method, "with": given}) + "\n")
            self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            raise BenchError(f"{self.name} ended: {self._last_words()}", self._remedy or None)
        answer = json.loads(line)
        if "refused" in answer:
            raise BenchError(f"{self.name}: {answer['refused']}", self._remedy or None)
        return answer["value"]

    def _last_words(self) -> str:
        """The end of what it wrote to stderr; a process that was killed says nothing."""
        code = self._child.wait()
        self._said.seek(0)
        lines = [line for line in self._said.read().splitlines() if line.strip()]
        if code < 0:
            return f"killed by signal {-code}, as a machine that is out of memory does"
        return lines[-1] if lines else f"exit code {code}"

    def close(self) -> None:
        """End the process: it does so by itself where nothing more can come."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with suppress(BrokenPipeError):
            self._child.stdin.close()
        try:
            self._child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child.stdout.close()
        self._said.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
