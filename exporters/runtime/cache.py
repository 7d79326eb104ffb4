"""What a graph remembers between calls, held where the model runs.

A graph says by the third dimension of each `past.*` input how that cache wants to be kept:

    past          every call takes what the one before gave, one value longer each time
    past_W        the same, and no later token sees more than its last W rows
    capacity      one buffer, allocated once: a call writes its rows into the same memory that it reads
    capacity_W    one buffer of W rows or more, in which the kernel keeps the last W itself

Letters: B rows of a batch, T new tokens of a call, P past columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from archspec.errors import ArchspecError
from archspec.exporters.units import many

from .device import PROVIDERS, RunError, run

Value = Any  # onnxruntime.OrtValue; the package has no types
Binding = Any  # onnxruntime.IOBinding
Place = tuple[str, int, int, list[int], int]
"""Where a tensor lies, as I/O binding wants it: device, its number, element type, shape, address."""

#: ONNX Runtime's name of an element type -> ONNX's number for it, and a numpy type of its size.
ELEMENTS: dict[str, tuple[int, type[np.generic]]] = {
    "tensor(float)": (TensorProto.FLOAT, np.float32),
    "tensor(float16)": (TensorProto.FLOAT16, np.float16),
    "tensor(bfloat16)": (TensorProto.BFLOAT16, np.uint16),
    "tensor(double)": (TensorProto.DOUBLE, np.float64),
}

#: A buffer that is too short becomes this much longer.
GROWTH = 2


@dataclass(frozen=True)
class Port:
    """One cache of a graph: B heads rows width. `rows`: how its third dimension is called."""

    past: str
    heads: int
    width: int
    rows: str
    element: str
    device: str

    @property
    def present(self) -> str:
        """The output that takes its place."""
        return self.past.replace("past.", "present.", 1)

    @property
    def buffered(self) -> bool:
        return self.rows.startswith("capacity")

    @property
    def window(self) -> int | None:
        """The rows that a later token sees; None: all."""
        _, _, rows = self.rows.partition("_")
        return int(rows) if rows else None

    @property
    def kind(self) -> int:
        """ONNX's number of the element type."""
        return ELEMENTS[self.element][0]

    def shape(self, batch: int, rows: int) -> list[int]:
        return [batch, self.heads, rows, self.width]

    def empty(self, batch: int, rows: int) -> Value:
        """A value with room for so many rows, which hold zeros: a kernel may weigh what is no number by 0."""
        if self.device == "cpu":
            return zeros(self.shape(batch, rows), self.element)
        none = onnxruntime.OrtValue.ortvalue_from_shape_and_type(self.shape(batch, 0), self.kind, self.device)
        return moved(self, none, back=rows) if rows else none


def zeros(shape: Sequence[int], element: str) -> Value:
    """A value on the CPU; it takes memory only where it is written."""
    kind, numpy = ELEMENTS[element]
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(np.zeros(shape, numpy), kind)


def place(value: Value, row: int) -> Place:
    """Where one row of a batch lies in a value."""
    batch, *shape = value.shape()
    one = value.tensor_size_in_bytes() // batch
    return value.device_name(), 0, value.element_type(), [1, *shape], value.data_ptr() + row * one


def ports(session: onnxruntime.InferenceSession, device: str) -> Iterator[Port]:
    """The caches of a graph. Raises ArchspecError for element types that nothing here can hold."""
    for slot in session.get_inputs():
        if slot.name.startswith("past."):
            if slot.type not in ELEMENTS:
                raise ArchspecError(f"the graph holds {slot.type}, which this runtime cannot read")
            _, heads, rows, width = slot.shape
            yield Port(slot.name, heads, width, str(rows), slot.type, device)


class Buffer:
    """A cache in one place."""

    def __init__(self, port: Port, batch: int, rows: int) -> None:
        window = port.window
        if window:  # on the CPU a little more than the window: rows then move once in a while and not at every step
            rows = window + (window // 4 if port.device == "cpu" else 0)
        self.port, self.rows, self.value = port, rows, port.empty(batch, rows)

    def reach(self, rows: int, enough: int) -> bool:
        """See to it that so many rows fit. True where that took another buffer, of `enough` rows."""
        if self.port.window or rows <= self.rows:
            return False
        self.value = moved(self.port, self.value, back=enough - self.rows)
        self.rows = enough
        return True

    def bind(self, binding: Binding) -> None:
        """The whole batch's, from now on."""
        binding.bind_ortvalue_input(self.port.past, self.value)
        binding.bind_ortvalue_output(self.port.present, self.value)

    def bind_row(self, binding: Binding, row: int) -> None:
        """One row's, for one call."""
        binding.bind_input(self.port.past, *place(self.value, row))
        binding.bind_output(self.port.present, *place(self.value, row))


def buffers(found: Sequence[Port], batch: int, rows: int) -> list[Buffer]:
    """The buffers of a batch, with room for so many rows. Raises RunError where there is no memory for them."""
    try:
        return [Buffer(port, batch, rows) for port in found]
    except MemoryError as error:
        raise RunError(
            f"Caches with room for {batch:,} × {many(rows, 'token')} do not fit into memory: {error}",
            "ask for fewer tokens (-n), or for fewer texts at once",
        ) from error


class Growing:
    """A cache that every call gives anew."""

    def __init__(self, port: Port, batch: int) -> None:
        self.port, self.value = port, port.empty(batch, 0)
        #: What the calls for single rows gave.
        self.apart: dict[int, Value] = {}

    @property
    def rows(self) -> int:
        held: int = self.value.shape()[2]
        return held

    def bind(self, binding: Binding) -> None:
        """The whole batch's, for one call."""
        binding.bind_ortvalue_input(self.port.past, self.value)
        binding.bind_output(self.port.present, self.port.device)

    def bind_row(self, binding: Binding, row: int) -> None:
        """One row's, for one call."""
        if self.rows:
            binding.bind_input(self.port.past, *place(self.value, row))
        else:
            binding.bind_ortvalue_input(self.port.past, self.port.empty(1, 0))
        binding.bind_output(self.port.present, self.port.device)

    def take(self, value: Value) -> None:
        """What a call for the whole batch gave. What no later token sees goes, once as much again has gathered: it takes a copy."""
        window = self.port.window
        rows = value.shape()[2]
        self.value = value if window is None or rows < 2 * window else moved(self.port, value, start=rows - window)

    def join(self, batch: int, new: int) -> None:
        """What the calls for single rows gave, as one batch: of the `new` columns a row's first ones are padding."""
        rows = self.rows + new
        whole = self.port.empty(batch, rows)
        for row in range(batch):
            value = self.apart.get(row)
            if value is None:  # a row without a token
                value = self.port.empty(1, 0)
            moved(self.port, value, front=rows - value.shape()[2], into=place(whole, row))
        self.apart.clear()
        self.take(whole)


def moved(
    port: Port, value: Value, *, start: int = 0, front: int = 0, back: int = 0, into: Place | None = None
) -> Value:
    """A copy of a cache's rows from `start` on, on its device, with so many empty ones in front and behind; `into` a place."""
    session = _mover(port.kind, port.device)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", value)
    binding.bind_cpu_input("start", np.array([start], np.int64))
    batch = value.shape()[0]
    for name, rows in (("front", front), ("back", back)):
        binding.bind_cpu_input(name, np.array(port.shape(batch, rows), np.int64))
    binding.bind_output("y", *(into or (port.device,)))
    run(session, binding)
    return binding.get_outputs()[0]


@cache
def _mover(kind: int, device: str) -> onnxruntime.InferenceSession:
    """y = empty rows ++ x[:, :, start:] ++ empty rows; front, back: the shapes of what is empty. CUDA has no Pad of bfloat16."""
    node, value = helper.make_node, helper.make_tensor_value_info
    nodes = [
        node("Slice", ["x", "start", "end", "axis"], ["rest"]),
        node("Expand", ["zero", "front"], ["before"]),
        node("Expand", ["zero", "back"], ["behind"]),
        node("Concat", ["before", "rest", "behind"], ["y"], axis=2),
    ]
    ins = [value("x", kind, [None] * 4), value("start", TensorProto.INT64, [1])]
    ins += [value(name, TensorProto.INT64, [4]) for name in ("front", "back")]
    constants = [helper.make_tensor(name, TensorProto.INT64, [1], [n]) for name, n in (("axis", 2), ("end", 2**62))]
    constants.append(helper.make_tensor("zero", kind, [], [0.0]))
    graph = helper.make_graph(nodes, "rows", ins, [value("y", kind, [None] * 4)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[PROVIDERS[device]])
