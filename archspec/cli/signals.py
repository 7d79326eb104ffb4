"""SIGINT and SIGTERM end a command by an exception, so that what it began is cleared away."""

from __future__ import annotations

import signal
import sys
from types import FrameType

#: Seconds after which a command that was told to end is told again.
AGAIN = 0.05


class Signals:
    """From `watch` to `rest`, a signal raises SystemExit.

    What is written in C may drop the exception or make another one of it, so it comes again until `rest`; importing such code may
    abort the process by it, so that an import is waited for, as is what clears up after an exception. Both methods are called in
    one `try`, and `rest` again first thing in its `except`, where nothing is raised: then no signal can fall between two of them.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        """128 and the number of the signal that came first."""
        self._watched = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) is not signal.SIG_IGN]
        self._resting = False

    def watch(self) -> None:
        for number in self._watched:
            signal.signal(number, self._end)

    def rest(self) -> None:
        """From here on a signal ends the process at once."""
        self._resting = True
        if self.code is not None and hasattr(signal, "SIGALRM"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number in self._watched:
            signal.signal(number, signal.SIG_DFL)

    def _end(self, number: int, frame: FrameType | None) -> None:
        if self._resting:
            return
        if self.code is None:
            self.code = 128 + number
        sys.unraisablehook = lambda _: None
        if hasattr(signal, "SIGALRM"):  # on Windows there is none
            signal.signal(signal.SIGALRM, self._end)
            signal.setitimer(signal.ITIMER_REAL, AGAIN)
            clearing = sys.exc_info()[0] is not None
            if clearing or _importing(frame):
                return
        sys.exit(self.code)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None
