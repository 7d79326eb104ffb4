"""The shape of an operation, and walks over a tree of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any, ClassVar

from .leaves import Leaf, Slot, Vector
from .record import Record

Children = Mapping[str, "Op | tuple[Op, ...]"]


class Op(Record):
    """One operation: fully resolved constants, and a body `forward(t, w, x, ...)` over the words of `t`.

    A body touches tensors only through `t`, branches only on its own fields and reads no shapes. Equal operations are
    interchangeable, which is how a layer is counted once and multiplied.
    """

    #: What its parameters and FLOPs are booked under, unless an operation around it says so already.
    component: ClassVar[str] = ""
    #: The same for single leaves.
    leaf_components: ClassVar[Mapping[str, str]] = {}
    #: Does its body take the encoder's output as a last argument?
    reads_memory: ClassVar[bool] = False
    forward: ClassVar[Callable[..., Any]]

    def leaves(self) -> Mapping[str, Leaf]:
        """Name -> what it stores."""
        return {}

    def of_stack(self) -> tuple[str, ...]:
        """Names of the leaves and children that all layers of a stack share: those of the first layer that has them."""
        return ()

    def children(self) -> Children:
        """Name -> operation, or operations in order."""
        return {}

    def state(self) -> Mapping[str, Slot]:
        """Name -> what it remembers between calls."""
        return {}


class Tensor(Record):
    """One stored tensor: `path` is its name in the built model and in files."""

    path: str
    shape: tuple[int, ...]
    component: str
    leaf: Leaf

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def trained(self) -> bool:
        """Is it a parameter, or a buffer that is stored beside them?"""
        return not isinstance(self.leaf, Vector) or self.leaf.trained


def walk(op: Op, path: str = "", component: str = "") -> Iterator[tuple[str, Op, str]]:
    """(path with trailing dot, operation, component) for the whole tree, in order."""
    component = component or op.component
    yield path, op, component
    for name, child in op.children().items():
        if isinstance(child, tuple):
            for i, c in enumerate(child):
                yield from walk(c, f"{path}{name}.{i}.", component)
        else:
            yield from walk(child, f"{path}{name}.", component)


def own_tensors(op: Op, path: str = "", component: str = "") -> Iterator[Tensor]:
    """The tensors of an operation's own leaves."""
    for name, leaf in op.leaves().items():
        booked = component or op.leaf_components.get(name, op.component)
        for suffix, shape in leaf.tensors().items():
            yield Tensor(f"{path}{name}{suffix}", shape, booked, leaf)


def tensors(op: Op, path: str = "", component: str = "") -> Iterator[Tensor]:
    """Every tensor of the tree by path, those that are tied to another one included."""
    for at, each, booked in walk(op, path, component):
        yield from own_tensors(each, at, booked)


def stack_tensors(layer: Op) -> Iterator[Tensor]:
    """The tensors of a layer that all layers of its stack share."""
    for path, op, booked in walk(layer):
        for name in op.of_stack():
            yield from (t for t in tensors(op, path, booked) if t.path.removeprefix(path).split(".")[0] == name)
