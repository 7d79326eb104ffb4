"""The numbers that an export writes: read some rows at a time, when they are written and not before."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

from archspec.errors import WeightsError

Array = np.ndarray[Any, Any]
#: Elements that are read at a time: what a core's cache and the disk's queue like, and nothing beside a model.
CHUNK = 1 << 20
#: Where the range of a narrow type ends: from here on a number is rounded to infinity.
ENDS = {ir.DataType.FLOAT16: 65520.0, ir.DataType.BFLOAT16: 3.3961775e38}

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
    transposed: what is read is the transpose of what is stored; its rows are columns there.
    abreast: so many columns there, side by side, are one row here, and as unsigned integers of their size together.
    """

    def __init__(
        self, rows: int, read: Callable[[int, int], Sequence[Array]], transposed: bool = False, abreast: int = 1
    ) -> None:
        self.rows, self.read, self.transposed, self.abreast = rows, read, transposed, abreast


class Streamed(ir.LazyTensor):
    """One tensor of a reading, the `index`-th. Types of less than a byte are read as the bytes that they are packed in.

    place: a name for its bytes in the file, which tensors of other types and shapes may share; by default its own.
    """

    def __init__(
        self,
        name: str,
        dtype: ir.DataType,
        shape: Sequence[int],
        reading: Reading,
        index: int,
        place: str | None = None,
    ) -> None:
        self.reading, self.index, self.place = reading, index, place or name
        super().__init__(self._whole, dtype, ir.Shape(shape), name=name)

    @property
    def stored(self) -> np.dtype[Any]:
        """What is read of it, and lies in the file."""
        if self.reading.abreast > 1:
            return np.dtype(f"u{int(self.dtype.itemsize * self.reading.abreast)}")
        return self.dtype.numpy() if self.dtype.itemsize >= 1 else np.dtype(np.uint8)

    def narrowed(self, array: Array) -> Array:
        """An array as it is stored. Raises WeightsError where that has no room for one of its numbers."""
        out: Array
        array = np.asarray(array)
        limit = ENDS.get(self.dtype)
        if limit and array.dtype != self.stored and array.size:
            most = float(max(array.max(), -array.min()))
            if limit <= most < np.inf:
                wider = (
                    "fp32" if self.dtype == ir.DataType.BFLOAT16 else "bf16, which reaches as far as float32, or fp32"
                )
                raise WeightsError(
                    f"{self.name} holds {most:.8g}, and {self.dtype.name.lower()} ends at {float(self.dtype.max):.8g}.",
                    f"say --precision {wider}; beside int8 and int4, --compute",
                )
        with np.errstate(over="ignore"):  # infinite before
            out = array.astype(self.stored, copy=False)
        return out

    def chunks(self) -> Iterator[tuple[int, int]]:
        """The rows of the reading, some at a time."""
        step = max(1, CHUNK * self.reading.rows // max(1, math.prod(self.shape.numpy())))
        for start in range(0, self.reading.rows, step):
            yield start, min(start + step, self.reading.rows)

    def _whole(self) -> ir.TensorProtocol:
        pieces = [self.narrowed(self.reading.read(*chunk)[self.index]) for chunk in self.chunks()]
        joined = np.concatenate([p.T for p in pieces], axis=1) if self.reading.transposed else np.concatenate(pieces)
        flat = np.ascontiguousarray(joined).reshape(-1)
        if self.dtype.itemsize >= 1:
            return ir.Tensor(flat.view(self.dtype.numpy()).reshape(self.shape.numpy()), name=self.name)
        return ir.PackedTensor(flat, self.dtype, shape=self.shape, name=self.name)


def damaged(name: str) -> WeightsError:
    """What is said of a weight that is infinite or no number."""
    return WeightsError(f"{name} holds numbers that are infinite or none.", "these weights are damaged")


def whole(make: Callable[[], Array]) -> Reader:
    """A small tensor, made anew whenever rows of it are asked for."""
    return lambda start, stop: make()[start:stop]


def concatenated(parts: Sequence[tuple[int, Reader]]) -> Reader:
    """Tensors, each with its number of rows, as one: the rows of the first, those of the next, and so on."""

    def read(start: int, stop: int) -> Array:
        pieces, at = [], 0
        for rows, reader in parts:
            a, b = max(start - at, 0), min(stop - at, rows)
            if a < b:
                pieces.append(reader(a, b))
            at += rows
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    return read
