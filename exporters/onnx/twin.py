"""A written graph in float32, for a look at its equations: what it then differs from PyTorch by is float32's rounding, or wrong.

The twin is the file's own graph, with the same weights: where it computes in half of a float its values become whole ones,
constants too, and kernels that round activations to 8 bits are asked for floats. What is left of a precision are the weights, as
they are stored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime as ort

from archspec.errors import VerificationError
from archspec.exporters.runtime.options import session_options

from .graph import HALVES, Array

FLOAT = ir.DataType.FLOAT

Exact = Mapping[str, Callable[[], Array]]
"""Constants that a graph holds rounded, by the names of their initializers"""


def twin(path: Path, exact: Exact) -> ort.InferenceSession:
    """A session on the CPU with the float32 twin of an ONNX file. Raises what ONNX Runtime raises."""
    options = session_options(path)
    options.log_severity_level = 4
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.parent))
    # ONNX Runtime makes kernels of 8-bit activations of DequantizeLinear + MatMul by itself
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "0")
    model = ir.load(path)
    widen(model.graph, exact)
    with _environment("ORT_QMOE_CPU_QNBIT_GEMM", "fp32"):  # experts of 8 bits heed no level
        return ort.InferenceSession(ir.to_proto(model).SerializeToString(), options, providers=["CPUExecutionProvider"])


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """A variable of the process while sessions are made inside."""
    saved = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if saved is None:
            del os.environ[name]
        else:
            os.environ[name] = saved


def widen(graph: ir.Graph, exact: Exact) -> None:
    """Make a graph compute in float32. Raises VerificationError where it holds another constant than the exact one, rounded."""
    for name, value in graph.initializers.items():
        if value.dtype in HALVES and name in exact:
            numbers = exact[name]()  # rounded once, from what they were computed in
            assert value.const_value is not None
            if not np.array_equal(value.const_value.numpy(), numbers.astype(value.dtype.numpy())):
                raise VerificationError(f"The graph's {name} is not what it was made of, rounded.")
            value.const_value, value.dtype = ir.tensor(np.float32(numbers), name=name), FLOAT
        elif value.dtype in HALVES:
            _whole(graph, value)
    for port in (*graph.inputs, *graph.outputs):
        if port.dtype in HALVES:
            port.dtype = FLOAT
    for node in graph.all_nodes():
        to = node.attributes.get("to")
        if to is not None and to.as_int() in HALVES and node.op_type == "Cast":
            node.attributes["to"] = ir.AttrInt64("to", FLOAT.value)
        if "accuracy_level" in node.attributes:
            node.attributes["accuracy_level"] = ir.AttrInt64("accuracy_level", 0)
        for out in node.outputs:
            if out.dtype in HALVES:
                out.dtype = FLOAT


def _whole(graph: ir.Graph, stored: ir.Value) -> None:
    """Let nodes read an initializer as float32."""
    users = list(stored.uses())
    cast = ir.Node("", "Cast", [stored], [ir.AttrInt64("to", FLOAT.value)], name=f"{stored.name}.float")
    cast.outputs[0].name = cast.name
    graph.insert_before(graph[0], cast)
    for node, index in users:
        node.replace_input_with(index, cast.outputs[0])
