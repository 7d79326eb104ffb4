"""How a checkpoint's tensors differ from ours, as invertible steps.

A step's `write` turns our tensors into the checkpoint's, `read` turns them back; `read(write(x)) == x` for each of them. The
shapes that a checkpoint must have are those that `write` gives on arrays without data (`blank`), so that they are stated once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from archspec.errors import WeightsError
from archspec.ops.attention import Attention
from archspec.ops.base import Op

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


class Transform(Protocol):
    """One step. `op` is the operation that owns the tensors: it knows its heads."""

    def write(self, ours: Sequence[Array], op: Op) -> Sequence[Array]:
        """Our tensors -> the checkpoint's."""
        ...

    def read(self, theirs: Sequence[Array], shapes: Sequence[Shape], op: Op) -> Sequence[Array]:
        """The checkpoint's tensors -> ours, which have these shapes."""
        ...


@dataclass(frozen=True)
class Transpose:
    """Matrices are stored (in, out); vectors are as they are."""

    def write(self, ours: Sequence[Array], op: Op) -> Sequence[Array]:
        return [x.swapaxes(-1, -2) if x.ndim > 1 else x for x in ours]

    def read(self, theirs: Sequence[Array], shapes: Sequence[Shape], op: Op) -> Sequence[Array]:
        return self.write(theirs, op)


@dataclass(frozen=True)
class Fuse:
    """Several of ours are the rows of one of theirs, one after the other: [all q, all k, all v], [gate, up].

    axis: of the rows; 1 where ours are stacked over experts.
    """

    axis: int = 0

    def write(self, ours: Sequence[Array], op: Op) -> Sequence[Array]:
        return [_joined(ours, self.axis)]

    def read(self, theirs: Sequence[Array], shapes: Sequence[Shape], op: Op) -> Sequence[Array]:
        (whole,) = theirs
        return _parted(whole, [shape[self.axis] for shape in shapes], self.axis)


@dataclass(frozen=True)
class Interleave:
    """Ours are every second (third, ...) row of one of theirs: gate 0, up 0, gate 1, up 1, ...

    axis: of the rows; 1 where ours are stacked over experts.
    """

    axis: int = 0

    def write(self, ours: Sequence[Array], op: Op) -> Sequence[Array]:
        return [_flat(_joined([np.expand_dims(x, self.axis + 1) for x in ours], self.axis + 1), self.axis)]

    def read(self, theirs: Sequence[Array], shapes: Sequence[Shape], op: Op) -> Sequence[Array]:
        (whole,) = theirs
        return list(np.moveaxis(_apart(whole, self.axis, -1, len(shapes)), self.axis + 1, 0))


@dataclass(frozen=True)
class FuseGroups:
    """Group by group, each of ours has its share of the rows: [q × g, k, v] for every group of heads that shares a key.

    With as many keys as queries that is [q, k, v] for every head, with one key [all q, k, v]. groups: how many, or the field of
    the operation that says so. The order inside a group is that of the rule's paths.
    """

    groups: int | str = "kv_heads"

    def write(self, ours: Sequence[Array], op: Op) -> Sequence[Array]:
        n = self._count(op)
        return [_flat(_joined([_apart(x, 0, n, -1) for x in ours], 1))]

    def read(self, theirs: Sequence[Array], shapes: Sequence[Shape], op: Op) -> Sequence[Array]:
        (whole,), n = theirs, self._count(op)
        return [_flat(part) for part in _parted(_apart(whole, 0, n, -1), [shape[0] // n for shape in shapes], 1)]

    def _count(self, op: Op) -> int:
        n = self.groups if isinstance(self.groups, int) else getattr(op, self.groups, None)
        if not isinstance(n, int):
            raise WeightsError(f"{type(op).__name__} has no {self.groups} by which rows could be grouped.")
        return n


@dataclass(frozen=True)
class Unstack:
    """One of ours holds several of theirs along its first axis: an expert each, a head each."""

    def write(self, ours: Sequence[Array], op: Op) -> Sequence[Array]:
        (whole,) = ours
        return list(whole)

    def read(self, theirs: Sequence[Array], shapes: Sequence[Shape], op: Op) -> Sequence[Array]:
        return [_joined([x[np.newaxis] for x in theirs], 0)]


@dataclass(frozen=True)
class Flatten:
    """The first two axes are one: (E, I, D) as (E·I, D), a norm's weight a head (H, 1, C) as (H, C)."""

    def write(self, ours: Sequence[Array], op: Op) -> Sequence[Array]:
        return [_flat(x) for x in ours]

    def read(self, theirs: Sequence[Array], shapes: Sequence[Shape], op: Op) -> Sequence[Array]:
        return [x.reshape(shape) for x, shape in zip(theirs, shapes, strict=True)]


@dataclass(frozen=True)
class Row:
    """A vector is stored as a matrix of one row."""

    def write(self, ours: Sequence[Array], op: Op) -> Sequence[Array]:
        return [x[np.newaxis] for x in ours]

    def read(self, theirs: Sequence[Array], shapes: Sequence[Shape], op: Op) -> Sequence[Array]:
        return [x[0] for x in theirs]


@dataclass(frozen=True)
class Shift:
    """Theirs is ours plus a constant: a weight of `1+w` that is stored as 1 + w."""

    by: float

    def write(self, ours: Sequence[Array], op: Op) -> Sequence[Array]:
        return [x + x.dtype.type(self.by) for x in ours]

    def read(self, theirs: Sequence[Array], shapes: Sequence[Shape], op: Op) -> Sequence[Array]:
        return [x - x.dtype.type(self.by) for x in theirs]


@dataclass(frozen=True)
class SwapHalves:
    """The halves of each head of q or k in the other order: a rotation by the opposite angle."""

    def write(self, ours: Sequence[Array], op: Op) -> Sequence[Array]:
        if not isinstance(op, Attention):
            raise WeightsError(f"{type(op).__name__} has no heads whose halves could be swapped.")
        return [_apart(x, 0, -1, 2, op.head_dim // 2)[:, ::-1].reshape(x.shape) for x in ours]

    def read(self, theirs: Sequence[Array], shapes: Sequence[Shape], op: Op) -> Sequence[Array]:
        return self.write(theirs, op)


@dataclass(frozen=True)
class RopeOrder:
    """The rows of each head of q or k in the order for adjacent rotary pairs (0, C/2, 1, C/2 + 1, ...).

    llama.cpp stores q and k so for its llama architecture. A model that turns adjacent pairs itself has this order already.
    """

    def write(self, ours: Sequence[Array], op: Op) -> Sequence[Array]:
        return [self._swapped(x, op, halves_first=True) for x in ours]

    def read(self, theirs: Sequence[Array], shapes: Sequence[Shape], op: Op) -> Sequence[Array]:
        return [self._swapped(x, op, halves_first=False) for x in theirs]

    def _swapped(self, x: Array, op: Op, halves_first: bool) -> Array:
        if not isinstance(op, Attention):
            raise WeightsError(f"{type(op).__name__} has no heads whose rows could be in rotary order.")
        if op.rope is not None and op.rope.interleaved:
            return x
        pairs = (2, op.head_dim // 2) if halves_first else (op.head_dim // 2, 2)
        return x.reshape(-1, *pairs, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def _joined(parts: Sequence[Array], axis: int) -> Array:
    """One after the other along an axis; of arrays without data, one without."""
    if any(any(part.strides) for part in parts):
        return np.concatenate(parts, axis)
    first, length = parts[0], sum(part.shape[axis] for part in parts)
    return blank([(*first.shape[:axis], length, *first.shape[axis + 1 :])], first.dtype)[0]


def _parted(whole: Array, sizes: Sequence[int], axis: int) -> list[Array]:
    """The first so many along an axis, the next so many, and so on."""
    return np.split(whole, np.cumsum(sizes), axis)[:-1]


def _flat(x: Array, axis: int = 0) -> Array:
    """An axis and the next as one."""
    return x.reshape(*x.shape[:axis], -1, *x.shape[axis + 2 :])


def _apart(x: Array, axis: int, *sizes: int) -> Array:
    """One axis as several."""
    return x.reshape(*x.shape[:axis], *sizes, *x.shape[axis + 1 :])


def written(chain: Sequence[Transform], ours: Sequence[Array], op: Op) -> Sequence[Array]:
    """Our tensors as the checkpoint stores them."""
    for step in chain:
        ours = step.write(ours, op)
    return ours


def read_back(chain: Sequence[Transform], theirs: Sequence[Array], shapes: Sequence[Shape], op: Op) -> Sequence[Array]:
    """The checkpoint's tensors as ours, of these shapes."""
    sides = [shapes]  # the shapes before each step
    for step in chain[:-1]:
        sides.append([tuple(x.shape) for x in step.write(blank(sides[-1]), op)])
    for step, side in zip(reversed(chain), reversed(sides), strict=False):
        theirs = step.read(theirs, side, op)
    return theirs


def blank(shapes: Sequence[Shape], dtype: Any = np.float32) -> list[Array]:
    """Arrays without data: a zero that is seen everywhere."""
    return [np.broadcast_to(np.zeros((), dtype), shape) for shape in shapes]
