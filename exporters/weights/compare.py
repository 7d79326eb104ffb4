"""Are tensors of a checkpoint equal, or 0 throughout? Some rows at a time: one may be the largest that there is."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from .transforms import Array

if TYPE_CHECKING:
    from .source import Checkpoint

#: Elements that are looked at at a time.
CHUNK = 1 << 22


def same(source: Checkpoint, a: str, b: str) -> bool:
    """Are two tensors equal?"""
    if source.shapes[a] != source.shapes[b]:
        return False
    return all(np.array_equal(x, y) for x, y in zip(_pieces(source, a), _pieces(source, b), strict=True))


def is_zero(source: Checkpoint, name: str) -> bool:
    """Is a tensor 0 throughout?"""
    return not any(piece.any() for piece in _pieces(source, name))


def _pieces(source: Checkpoint, name: str) -> Iterator[Array]:
    shape = source.shapes[name]
    if not shape:
        yield source.read(name)
        return
    rows, step = prod(shape[:-1]), max(1, CHUNK // max(1, shape[-1]))
    for start in range(0, rows, step):
        yield source.read(name, start, min(start + step, rows))
