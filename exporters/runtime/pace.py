"""How many tokens a generation makes, and how fast."""

from __future__ import annotations

import time
from collections.abc import Iterator

from .generation import Step


class Pace:
    """Tokens of a generation, counted and timed step by step: `made` of all rows, after `read` in the prompts."""

    def __init__(self, read: int) -> None:
        self.read, self.made = read, 0
        self._start = self._first = self._last = time.perf_counter()
        self._made_first = 0

    def over(self, steps: Iterator[Step]) -> Iterator[Step]:
        """The steps, as they come."""
        for step in steps:
            self._last = time.perf_counter()
            new = sum(token is not None for token in step.tokens)
            if not self.made:
                self._first, self._made_first = self._last, new
            self.made += new
            yield step

    @property
    def wait(self) -> float:
        """Seconds until the first token, from when this was made."""
        return self._first - self._start

    @property
    def rate(self) -> float | None:
        """Tokens a second after the first step. None: there was none."""
        return (self.made - self._made_first) / (self._last - self._first) if self._last > self._first else None
