"""A checkpoint's weights under our paths, read when they are asked for: no module is built, and no more than a tensor held."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
from torch import Tensor

from archspec.exporters.rows import matrix_rows
from archspec.ops.model import Model

from .load import fitted
from .maps import Entry
from .source import Weights
from .transforms import Unstack, read_back

Array = np.ndarray[Any, Any]


class Checkpoint:
    """The stored tensors of a model by path, in float32. Raises `WeightsError` where the checkpoint is not this model's.

    Rows of a tensor that is stored as it is, or an expert at a time, are read alone. What has to be taken apart (q, k and v in
    one) is read whole, and kept until something else is asked for.
    """

    def __init__(self, model: Model, source: Weights, context_length: int | None = None) -> None:
        self.source = source
        self.entries = {path: e for e in fitted(model, source, context_length).entries for path in e.paths}
        self._lock = Lock()
        self._held: tuple[Entry | None, Sequence[Tensor]] = None, ()

    def __call__(self, path: str, start: int = 0, stop: int | None = None) -> Array:
        """A whole tensor in its shape; with `stop`, rows [start, stop) of it as a matrix, all axes but the last being one."""
        entry = self.entries[path]
        if not entry.chain:
            found = self.source.read(entry.theirs[0], start, stop)
        elif stop is not None and entry.chain == (Unstack(),) and (one := _inside(entry, start, stop)):
            found = self.source.read(*one)
        else:
            found = matrix_rows(self._whole(entry)[entry.paths.index(path)], start, stop)
        array: Array = found.float().numpy()
        return array

    def _whole(self, entry: Entry) -> Sequence[Tensor]:
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
