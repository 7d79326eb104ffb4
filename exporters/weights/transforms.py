"""How a checkpoint's tensors differ from ours, as invertible steps.

A step's `write` turns our tensors into the checkpoint's, `read` turns them back; `read(write(x)) == x` for each of them. The
shapes that a checkpoint must have are those that `write` gives on tensors without data, so that they are stated once.

What a family says is read in many places that move no tensors: torch is imported where they are moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from archspec.errors import WeightsError
from archspec.ops.attention import Attention
from archspec.ops.base import Op

if TYPE_CHECKING:
    from torch import Tensor

Shape = tuple[int, ...]


class Transform(Protocol):
    """One step. `op` is the operation that owns the tensors: it knows its heads."""

    def write(self, ours: Sequence[Tensor], op: Op) -> Sequence[Tensor]:
        """Our tensors -> the checkpoint's."""
        ...

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], op: Op) -> Sequence[Tensor]:
        """The checkpoint's tensors -> ours, which have these shapes."""
        ...


@dataclass(frozen=True)
class Transpose:
    """Matrices are stored (in, out); vectors are as they are."""

    def write(self, ours: Sequence[Tensor], op: Op) -> Sequence[Tensor]:
        return [x.mT if x.ndim > 1 else x for x in ours]

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], op: Op) -> Sequence[Tensor]:
        return self.write(theirs, op)


@dataclass(frozen=True)
class Fuse:
    """Several of ours are the rows of one of theirs, one after the other: [all q, all k, all v], [gate, up].

    axis: of the rows; 1 where ours are stacked over experts.
    """

    axis: int = 0

    def write(self, ours: Sequence[Tensor], op: Op) -> Sequence[Tensor]:
        return [_torch().cat(list(ours), self.axis)]

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], op: Op) -> Sequence[Tensor]:
        (whole,) = theirs
        parts: Sequence[Tensor] = _torch().split(whole, [shape[self.axis] for shape in shapes], self.axis)
        return parts


@dataclass(frozen=True)
class Interleave:
    """Ours are every second (third, ...) row of one of theirs: gate 0, up 0, gate 1, up 1, ...

    axis: of the rows; 1 where ours are stacked over experts.
    """

    axis: int = 0

    def write(self, ours: Sequence[Tensor], op: Op) -> Sequence[Tensor]:
        return [_torch().stack(list(ours), self.axis + 1).flatten(self.axis, self.axis + 1)]

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], op: Op) -> Sequence[Tensor]:
        (whole,) = theirs
        return _apart(whole, self.axis, -1, len(shapes)).unbind(self.axis + 1)


@dataclass(frozen=True)
class FuseGroups:
    """Group by group, each of ours has its share of the rows: [q × g, k, v] for every group of heads that shares a key.

    With as many keys as queries that is [q, k, v] for every head, with one key [all q, k, v]. groups: how many, or the field of
    the operation that says so. The order inside a group is that of the rule's paths.
    """

    groups: int | str = "kv_heads"

    def write(self, ours: Sequence[Tensor], op: Op) -> Sequence[Tensor]:
        n = self._count(op)
        return [_torch().cat([_apart(x, 0, n, -1) for x in ours], 1).flatten(0, 1)]

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], op: Op) -> Sequence[Tensor]:
        (whole,), n = theirs, self._count(op)
        parts = _torch().split(_apart(whole, 0, n, -1), [shape[0] // n for shape in shapes], 1)
        return [part.flatten(0, 1) for part in parts]

    def _count(self, op: Op) -> int:
        n = self.groups if isinstance(self.groups, int) else getattr(op, self.groups, None)
        if not isinstance(n, int):
            raise WeightsError(f"{type(op).__name__} has no {self.groups} by which rows could be grouped.")
        return n


@dataclass(frozen=True)
class Unstack:
    """One of ours holds several of theirs along its first axis: an expert each, a head each."""

    def write(self, ours: Sequence[Tensor], op: Op) -> Sequence[Tensor]:
        (whole,) = ours
        return whole.unbind()

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], op: Op) -> Sequence[Tensor]:
        return [_torch().stack(list(theirs))]


@dataclass(frozen=True)
class Flatten:
    """The first two axes are one: (E, I, D) as (E·I, D), a norm's weight a head (H, 1, C) as (H, C)."""

    def write(self, ours: Sequence[Tensor], op: Op) -> Sequence[Tensor]:
        return [x.flatten(0, 1) for x in ours]

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], op: Op) -> Sequence[Tensor]:
        return [x.reshape(shape) for x, shape in zip(theirs, shapes, strict=True)]


@dataclass(frozen=True)
class Pad:
    """Theirs has rows past ours that no run of the model reads; written, they are zero."""

    rows: int
    axis: int = 0

    def write(self, ours: Sequence[Tensor], op: Op) -> Sequence[Tensor]:
        return [_torch().cat([x, x.new_zeros(self._extra(x.shape))], self.axis) for x in ours]

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], op: Op) -> Sequence[Tensor]:
        return [x.narrow(self.axis, 0, shape[self.axis]) for x, shape in zip(theirs, shapes, strict=True)]

    def _extra(self, shape: Shape) -> list[int]:
        return [self.rows if i == self.axis else n for i, n in enumerate(shape)]


@dataclass(frozen=True)
class Shift:
    """Theirs is ours plus a constant: a weight of `1+w` that is stored as 1 + w."""

    by: float

    def write(self, ours: Sequence[Tensor], op: Op) -> Sequence[Tensor]:
        return [x + self.by for x in ours]

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], op: Op) -> Sequence[Tensor]:
        return [x - self.by for x in theirs]


@dataclass(frozen=True)
class SwapHalves:
    """The halves of each head of q or k in the other order: a rotation by the opposite angle."""

    def write(self, ours: Sequence[Tensor], op: Op) -> Sequence[Tensor]:
        if not isinstance(op, Attention):
            raise WeightsError(f"{type(op).__name__} has no heads whose halves could be swapped.")
        return [_apart(x, 0, -1, 2, op.head_dim // 2).flip(1).flatten(0, 2) for x in ours]

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], op: Op) -> Sequence[Tensor]:
        return self.write(theirs, op)


@dataclass(frozen=True)
class RopeOrder:
    """The rows of each head of q or k in the order for adjacent rotary pairs (0, C/2, 1, C/2 + 1, ...).

    llama.cpp stores q and k so for its llama architecture. A model that turns adjacent pairs itself has this order already.
    """

    def write(self, ours: Sequence[Tensor], op: Op) -> Sequence[Tensor]:
        return [self._swapped(x, op, halves_first=True) for x in ours]

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], op: Op) -> Sequence[Tensor]:
        return [self._swapped(x, op, halves_first=False) for x in theirs]

    def _swapped(self, x: Tensor, op: Op, halves_first: bool) -> Tensor:
        if not isinstance(op, Attention):
            raise WeightsError(f"{type(op).__name__} has no heads whose rows could be in rotary order.")
        if op.rope is not None and op.rope.interleaved:
            return x
        pairs = (2, op.head_dim // 2) if halves_first else (op.head_dim // 2, 2)
        return x.reshape(-1, *pairs, *x.shape[1:]).transpose(1, 2).reshape(x.shape)


def _torch() -> Any:
    import torch

    return torch


def _apart(x: Tensor, axis: int, *sizes: int) -> Tensor:
    """One axis as several."""
    return x.reshape(*x.shape[:axis], *sizes, *x.shape[axis + 1 :])


def written(chain: Sequence[Transform], ours: Sequence[Tensor], op: Op) -> Sequence[Tensor]:
    """Our tensors as the checkpoint stores them."""
    for step in chain:
        ours = step.write(ours, op)
    return ours


def read_back(
    chain: Sequence[Transform], theirs: Sequence[Tensor], shapes: Sequence[Shape], op: Op
) -> Sequence[Tensor]:
    """The checkpoint's tensors as ours, of these shapes."""
    sides = [shapes]  # the shapes before each step
    for step in chain[:-1]:
        sides.append([tuple(x.shape) for x in step.write(blank(sides[-1]), op)])
    for step, side in zip(reversed(chain), reversed(sides), strict=False):
        theirs = step.read(theirs, side, op)
    return theirs


def blank(shapes: Sequence[Shape]) -> list[Tensor]:
    """Tensors without data."""
    return [_torch().empty(shape, device="meta") for shape in shapes]
