"""The numbers that an export writes: read some rows at a time, when they are written and not before."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

Array = np.ndarray[Any, Any]
#: Elements that are read at a time: what a core's cache and the disk's queue like, and nothing beside a model.
CHUNK = 1 << 21

Reader = Callable[[int, int], Array]
"""Rows [start, stop) of a tensor. May be called from several threads, in any order, and twice for the same rows."""


class Weights(Protocol):
    """A model's stored tensors by path (`model.tensors()`), as they are stored: (out, in) for a linear."""

    def __call__(self, path: str, start: int = 0, stop: int | None = None) -> Array:
        """A whole tensor in its shape; with `stop`, rows [start, stop) of it as a matrix, all axes but the last being one.

        Called as a `Reader` is.
        """
        ...


class Reading:
    """Tensors of a graph that are made together, `rows` rows of each at a time.

    read: (start, stop) -> those rows of every tensor.
    turned: what is read is the transpose of what is stored; its rows are columns there.
    """

    def __init__(self, rows: int, read: Callable[[int, int], Sequence[Array]], turned: bool = False) -> None:
        self.rows, self.read, self.turned = rows, read, turned


class Streamed(ir.LazyTensor):
    """One tensor of a reading. Types of less than a byte are read as the bytes that they are packed in."""

    def __init__(self, name: str, dtype: ir.DataType, shape: Sequence[int], reading: Reading, index: int = 0) -> None:
        self.reading, self.index = reading, index
        super().__init__(self._whole, dtype, ir.Shape(shape), name=name)

    @property
    def stored(self) -> np.dtype[Any]:
        """What lies in the file."""
        return self.dtype.numpy() if self.dtype.itemsize >= 1 else np.dtype(np.uint8)

    def chunks(self) -> Iterator[tuple[int, int]]:
        """The rows of the reading, some at a time."""
        step = max(1, CHUNK * self.reading.rows // max(1, math.prod(self.shape.numpy())))
        for start in range(0, self.reading.rows, step):
            yield start, min(start + step, self.reading.rows)

    def _whole(self) -> ir.TensorProtocol:
        read, kind = self.reading.read, self.stored
        pieces = [np.asarray(read(*chunk)[self.index]).astype(kind, copy=False) for chunk in self.chunks()]
        joined = np.concatenate([p.T for p in pieces], axis=1) if self.reading.turned else np.concatenate(pieces)
        if self.dtype.itemsize >= 1:
            return ir.Tensor(np.ascontiguousarray(joined).reshape(self.shape.numpy()), name=self.name)
        return ir.PackedTensor(np.ascontiguousarray(joined).reshape(-1), self.dtype, self.shape, name=self.name)


def whole(make: Callable[[], Array]) -> Reader:
    """A small tensor, made anew whenever rows of it are asked for."""
    return lambda start, stop: make()[start:stop]


def beside(parts: Sequence[tuple[int, Reader]]) -> Reader:
    """Tensors one below the other, each with its number of rows, as one."""

    def read(start: int, stop: int) -> Array:
        pieces, at = [], 0
        for rows, reader in parts:
            a, b = max(start - at, 0), min(stop - at, rows)
            if a < b:
                pieces.append(reader(a, b))
            at += rows
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    return read
