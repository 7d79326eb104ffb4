"""A checkpoint's weights under our paths, read when they are asked for: no module is built, and no more than a tensor held."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from archspec.exporters.rows import matrix_rows

from .maps import Entry
from .source import Checkpoint
from .transforms import Array, Unstack, read_back

if TYPE_CHECKING:
    from .fit import Fit


class Fitted:
    """The stored tensors of a model by path, in float32, of a checkpoint that was found to fit it.

    Rows of a tensor that is stored as it is, or an expert at a time, are read alone. What has to be taken apart (q, k and v in
    one) is read whole, and kept until something else is asked for.
    """

    def __init__(self, source: Checkpoint, fit: Fit) -> None:
        self.__setstate__((source, {path: e for e in fit.entries for path in e.paths}))

    def __getstate__(self) -> tuple[Checkpoint, dict[str, Entry]]:
        """What another process needs to read the same."""
        return self.source, self.entries

    def __setstate__(self, state: tuple[Checkpoint, dict[str, Entry]]) -> None:
        self.source, self.entries = state
        self._lock = Lock()
        self._held: tuple[Entry | None, Sequence[Array]] = None, ()

    def __call__(self, path: str, start: int = 0, stop: int | None = None) -> Array:
        """A whole tensor in its shape; with `stop`, rows [start, stop) of it as a matrix, all axes but the last being one."""
        entry = self.entries[path]
        if not entry.chain:
            found = self.source.read(entry.theirs[entry.paths.index(path)], start, stop)
        elif stop is not None and entry.chain == (Unstack(),) and (one := _inside(entry, start, stop)):
            found = self.source.read(*one)
        else:
            found = matrix_rows(self._whole(entry)[entry.paths.index(path)], start, stop)
        return found.astype(np.float32, copy=False)

    def _whole(self, entry: Entry) -> Sequence[Array]:
        """All of ours that are made of the same tensors of theirs."""
        with self._lock:
            if self._held[0] is not entry:
                self._held = None, ()  # let go of first
                theirs = [self.source.read(name) for name in entry.theirs]
                self._held = entry, read_back(entry.chain, theirs, entry.our_shapes, entry.op)
            return self._held[1]


def _inside(entry: Entry, start: int, stop: int) -> tuple[str, int, int] | None:
    """The one of theirs that rows of the stack of all lie in, and which rows of it they are."""
    if len(entry.our_shapes[0]) < 3:
        return None
    _, rows, _ = entry.our_shapes[0]
    at = start // rows
    return None if stop > (at + 1) * rows else (entry.theirs[at], start - at * rows, stop - at * rows)
