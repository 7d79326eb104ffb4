"""How a checkpoint's tensors differ from ours, as invertible steps.

A step's `write` turns our tensors into the checkpoint's, `read` turns them back; `read(write(x)) == x` for each of them. The
shapes that a checkpoint must have are those that `write` gives on tensors without data, so that they are stated once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import torch
from torch import Tensor

from archspec.errors import WeightsError
from archspec.ops.attention import Attention
from archspec.ops.base import Op

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
    """Several of ours are the rows of one of theirs, one after the other: [all q, all k, all v], [gate, up]."""

    def write(self, ours: Sequence[Tensor], op: Op) -> Sequence[Tensor]:
        return [torch.cat(list(ours))]

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], op: Op) -> Sequence[Tensor]:
        (whole,) = theirs
        starts = accumulate((shape[0] for shape in shapes), initial=0)
        return [whole[start : start + shape[0]] for start, shape in zip(starts, shapes, strict=False)]


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
    return [torch.empty(shape, device="meta") for shape in shapes]
