"""A small builder of ONNX graphs: nodes, inputs, outputs, weights that are read when they are written, constants once each."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import onnx_ir as ir

from archspec.compiler.precision import Compute

from .weights import Array as Array
from .weights import Reader, Reading, Streamed, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

Made = TypeVar("Made")

#: Opset 23 is the first with attention, rotation and RMS norms, and the last that ONNX Runtime runs at full speed.
OPSET = 23
IR_VERSION = 11
INT64 = ir.DataType.INT64
#: What graphs compute in, by its name in a precision.
DTYPES: dict[Compute, ir.DataType] = {
    "fp32": ir.DataType.FLOAT,
    "fp16": ir.DataType.FLOAT16,
    "bf16": ir.DataType.BFLOAT16,
}
HALVES = (DTYPES["fp16"], DTYPES["bf16"])


@contextmanager
def uncollected() -> Iterator[None]:
    """Python looks for no garbage meanwhile. A graph has none, and to walk a large one over and over costs more than to make it."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class Builder:
    """One graph in the making. Names are unique by counting, with the layer they stand in before them."""

    def __init__(self, name: str, dtype: ir.DataType) -> None:
        self.dtype = dtype
        self.graph = ir.Graph([], [], nodes=[], name=name, opset_imports={"": OPSET})
        self.memo: dict[Hashable, Any] = {}
        #: Numbers that the graph holds rounded, by the name of the initializer -> as float32 has them.
        self.exact: dict[str, Callable[[], Array]] = {}
        self.place = ""
        self.count = 0
        #: The node before which new ones are put; None: at the end.
        self.anchor: ir.Node | None = None
        #: What `either` made.
        self.choices: list[ir.Value] = []
        #: A value that passes have replaced -> what stands for it.
        self.swapped: dict[ir.Value, ir.Value] = {}

    @contextmanager
    def precise(self) -> Iterator[None]:
        """Numbers and weights made inside are float32."""
        saved, self.dtype = self.dtype, ir.DataType.FLOAT
        yield
        self.dtype = saved

    @property
    def half(self) -> bool:
        """Does the graph compute in two bytes?"""
        return self.dtype in HALVES

    def full(self, x: ir.Value) -> ir.Value:
        """A float in float32 where the graph computes in half: what squares, sums and exponentials are taken of."""
        return self.op("Cast", x, to=ir.DataType.FLOAT.value) if self.half else x

    def halved(self, x: ir.Value) -> ir.Value:
        """What came of `full`, as the graph computes."""
        return self.op("Cast", x, to=self.dtype.value) if self.half else x

    @contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Nodes made inside carry this place in their names."""
        saved, self.place = self.place, place
        yield
        self.place = saved

    @contextmanager
    def before(self, node: ir.Node) -> Iterator[None]:
        """Nodes made inside are put before this one, in order, and carry its place in their names."""
        saved, self.anchor = self.anchor, node
        with self.at(str(node.name).rpartition(node.op_type)[0]):
            yield
        self.anchor = saved

    def nodes(self, kind: str, outputs: int, *inputs: ir.Value | None, **attributes: Any) -> Sequence[ir.Value]:
        """A node with several outputs; `kind` has its domain before it where that is not ONNX's own: `com.microsoft.MoE`.

        An input of None is one that is left out.
        """
        self.count += 1
        domain, _, kind = kind.rpartition(".")
        if domain:
            self.graph.opset_imports[domain] = 1
        attrs = [ir.convenience.convert_attribute(k, v) for k, v in attributes.items()]
        node = ir.Node(domain, kind, inputs, attrs, num_outputs=outputs, name=f"{self.place}{kind}_{self.count}")
        for i, out in enumerate(node.outputs):
            out.name = node.name if outputs == 1 else f"{node.name}.{i}"
        if self.anchor is None:
            self.graph.append(node)
        else:
            self.graph.insert_before(self.anchor, node)
        return node.outputs

    def op(self, kind: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """A node with one output."""
        return self.nodes(kind, 1, *inputs, **attributes)[0]

    def input(self, name: str, dtype: ir.DataType, shape: Sequence[int | str]) -> ir.Value:
        """An input of the graph, once for each name; a name in its shape is a dimension that every run chooses anew."""

        def make() -> ir.Value:
            value = ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(shape))
            self.graph.inputs.append(value)
            return value

        return self.once(("input", name), make)

    def output(self, value: ir.Value, name: str, shape: Sequence[int | str]) -> None:
        """Make a value an output of the graph."""
        value.name, value.type, value.shape = name, ir.TensorType(self.dtype), ir.Shape(shape)
        self.graph.outputs.append(value)

    def weight(self, name: str, shape: Sequence[int], read: Reader, *, transposed: bool = False) -> ir.Value:
        """A stored tensor of the model, once for each name. `read` gives rows of it when the file is written, and not before.

        transposed: `read` gives rows of its transpose.
        """
        reading = Reading(shape[-1 if transposed else 0], lambda start, stop: (read(start, stop),), transposed)
        return self.weights([(name, self.dtype, shape)], reading)[0]

    def weights(
        self, tensors: Sequence[tuple[str, ir.DataType, Sequence[int]]], reading: Reading
    ) -> Sequence[ir.Value]:
        """Stored tensors (name, type, shape) that are made together, once for each name of the first."""

        def make() -> Sequence[ir.Value]:
            return [
                self._initializer(name, Streamed(name, dtype, shape, reading, i))
                for i, (name, dtype, shape) in enumerate(tensors)
            ]

        return self.once(("weight", tensors[0][0]), make)

    def view(self, of: ir.Value, name: str, dtype: ir.DataType, shape: Sequence[int]) -> ir.Value:
        """The bytes of a stored tensor once more, as a tensor of another type and shape: they stand in the file once."""

        def make() -> ir.Value:
            held = of.const_value
            assert isinstance(held, Streamed)
            return self._initializer(name, Streamed(name, dtype, shape, held.reading, held.index, held.place))

        return self.once(("weight", name), make)

    def const(self, array: Any, dtype: Any = np.int64) -> ir.Value:
        """A constant inside the graph, once for each content."""
        a = np.asarray(array, dtype)
        key = ("const", a.tobytes(), a.shape, a.dtype.str)
        return self.once(key, lambda: self._initializer(f"const_{len(self.memo)}", ir.tensor(a)))

    def number(self, x: Any) -> ir.Value:
        """A constant of the model's own type."""
        if not self.half:
            return self.const(x, self.dtype.numpy())
        exact = np.asarray(x, np.float32)

        def make() -> ir.Value:
            name = f"const_{len(self.memo)}"
            self.exact[name] = lambda: exact
            return self._initializer(name, ir.tensor(exact.astype(self.dtype.numpy())))

        return self.once(("number", exact.tobytes(), exact.shape, self.dtype), make)

    def table(self, name: str, shape: Sequence[int], make: Callable[[], Array]) -> ir.Value:
        """Numbers that are computed and stored, once for each name."""
        self.exact[name] = make
        return self.weight(name, shape, whole(make))

    def either(self, condition: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        """a where the condition, a bool without an axis, holds; else b, of the same shape. See `branches`."""
        y = self.op("Where", condition, a, b)
        self.choices.append(y)
        return y

    def swap(self, old: ir.Value, new: ir.Value) -> None:
        """`new` stands for `old` from now on: as an input of nodes, and as an output of the graph, whose name and type it takes."""
        if old.is_graph_output():
            new.name, new.type, new.shape = old.name, old.type, old.shape
            old.name = None
        ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
        self.swapped[old] = new

    def now(self, value: ir.Value) -> ir.Value:
        """What stands for a value that may have been swapped."""
        while value in self.swapped:
            value = self.swapped[value]
        return value

    def last(self, x: ir.Value, n: ir.Value, axis: int) -> ir.Value:
        """The last n rows of an axis; n is a vector of one number, at least 1."""
        return self.op("Slice", x, self.op("Neg", n), self.const([2**62]), self.const([axis]))

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What `make` gives, made once a graph."""
        if key not in self.memo:
            self.memo[key] = make()
        made: Made = self.memo[key]
        return made

    def _initializer(self, name: str, tensor: ir.TensorProtocol) -> ir.Value:
        tensor.name = name
        value = ir.Value(
            name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy()), const_value=tensor
        )
        self.graph.initializers[name] = value
        return value


def without_tail(inputs: Sequence[ir.Value | None]) -> list[ir.Value | None]:
    """A node's inputs without those left out at the end."""
    given = list(inputs)
    while given and given[-1] is None:
        given.pop()
    return given


def prune(graph: ir.Graph, keep: Sequence[str]) -> None:
    """Drop the nodes, initializers and inputs that no output needs; inputs named in `keep` stay."""
    for node in reversed(graph):
        if not any(out.uses() or out.is_graph_output() for out in node.outputs):
            graph.remove(node, safe=True)
    for name, value in list(graph.initializers.items()):
        if not value.uses():
            del graph.initializers[name]
    for value in [v for v in graph.inputs if not v.uses() and v.name not in keep]:
        graph.inputs.remove(value)
