"""The layers of a spec, each with its place: what the checks walk over."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import NamedTuple

from archspec.diagnostics import Place
from archspec.language.base import scale_value
from archspec.language.model import Entry, Group, Layer, Spec, depth_of

from ..nodes import Node
from ..places import Path, Places


class Site(NamedTuple):
    """One entry of a stack that is a layer (repeats and all)."""

    spec: Spec
    stack: str  # encoder or decoder
    depth: int  # layers of the stack
    path: Path
    layer: Layer
    places: Places

    def place(self, *path: str | int) -> Place:
        """Where a part of this layer was written."""
        return self.places(*self.path, *path)

    def written(self, *path: str | int) -> Node | None:
        """The located value of a part of this layer; None where it is a default."""
        return self.places.node(*self.path, *path)


def layer_sites(spec: Spec, places: Places) -> Iterator[Site]:
    """Every layer entry, in reading order."""
    for name, stack in spec.stacks().items():
        depth = depth_of(stack.layers)
        for path, layer in _leaves(stack.layers, (name, "layers")):
            yield Site(spec, name, depth, path, layer, places)


def _leaves(entries: tuple[Entry, ...], path: Path) -> Iterator[tuple[Path, Layer]]:
    for index, entry in enumerate(entries):
        if isinstance(entry, Group):
            yield from _leaves(entry.layers, (*path, index, "layers"))
        else:
            yield (*path, index), entry


def value_of(scale: float | str, **names: int) -> float | None:
    """The number a scale means; None where it divides by zero or leaves the floats."""
    try:
        value = scale_value(scale, **names)
    except (ZeroDivisionError, OverflowError):
        return None
    return value if isfinite(value) else None


def neighbours(whole: int, near: int) -> list[int]:
    """The divisors of `whole` on both sides of `near`."""
    below = next((n for n in range(min(near, whole), 0, -1) if whole % n == 0), 1)
    above = next((n for n in range(near, min(whole, 2 * near) + 1) if whole % n == 0), None)
    return [below] if above is None else [below, above]
