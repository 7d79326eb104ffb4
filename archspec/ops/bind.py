"""An operation bound to its place: the scope that a body sees in interpreters without a module tree of their own."""

from __future__ import annotations

from typing import Any

from .base import Op
from .leaves import Leaf, Slot
from .record import Record


class LeafRef(Record):
    """A leaf at a path, and what its parameters and FLOPs are booked under."""

    path: str
    leaf: Leaf
    component: str = ""


class SlotRef(Record):
    """A cache slot at a path."""

    path: str
    slot: Slot


class Bound:
    """`w.q` is a `LeafRef`, `w.key` a `SlotRef`, `w.norm(t, x)` a bound child, `w.layers` a list of them; made on demand."""

    def __init__(self, op: Op, path: str = "", component: str = "") -> None:
        self.op, self.path, self.component = op, path, component or op.component

    def __getattr__(self, name: str) -> Any:
        path = f"{self.path}{name}"
        value: Any
        if (leaf := self.op.leaves().get(name)) is not None:
            value = LeafRef(path, leaf, self.component or self.op.leaf_components.get(name, ""))
        elif (slot := self.op.state().get(name)) is not None:
            value = SlotRef(path, slot)
        else:
            children = self.op.children()
            if name not in children:
                raise AttributeError(f"{type(self.op).__name__} has no leaf, slot or child {name!r}")
            child = children[name]
            if isinstance(child, tuple):
                value = [type(self)(c, f"{path}.{i}.", self.component) for i, c in enumerate(child)]
            else:
                value = type(self)(child, f"{path}.", self.component)
        self.__dict__[name] = value
        return value

    def __call__(self, t: Any, *xs: Any) -> Any:
        return self.op.forward(t, self, *xs)
