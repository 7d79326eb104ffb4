"""What ONNX Runtime 1.31 has no kernel for on CUDA is not in graphs that are meant for it. No card is needed to see that."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir
import pytest
from tiny import DECODERS, ENCODERS, GROWING, SEQ2SEQ, tiny

from archspec.compiler.precision import Precision, precision
from archspec.errors import UsageError
from archspec.exporters.onnx.emit import Target, emit, parts

BFLOAT16 = ir.DataType.BFLOAT16
FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, BFLOAT16)
#: Of bfloat16, neither has CUDA them nor the CPU; of OneHot and TopK not even ONNX.
LACKING = {
    "Clip", "CumSum", "DequantizeLinear", "Equal", "Floor", "Greater", "Less", "LessOrEqual", "Log", "OneHot", "Pad", "Reciprocal",
    "ReduceL2", "ReduceMax", "Round", "TopK",
}  # fmt: skip


def lacking(graph: ir.Graph) -> Iterator[str]:
    """Operators that read bfloat16 and cannot: a float stays what it is until it is cast."""
    kinds = {value: value.dtype for value in (*graph.inputs, *graph.initializers.values())}
    for node in graph.all_nodes():
        read = [
            kind for value in node.inputs if value and (kind := kinds.get(value)) in FLOATS and node.op_type != "Shape"
        ]
        to = node.attributes.get("to")
        made = ir.DataType(to.as_int()) if node.op_type == "Cast" and to else read[0] if read else None
        if node.op_type == "If":
            made = node.attributes["then_branch"].as_graph().outputs[0].dtype
        kinds.update(dict.fromkeys(node.outputs, made))
        if node.op_type in LACKING and BFLOAT16 in read:
            yield node.op_type


@pytest.mark.parametrize("numbers", [precision("bf16"), precision("int4", compute="bf16", block=16)], ids=str)
@pytest.mark.parametrize("target", ["onnx", "ort"])
@pytest.mark.parametrize("name", [*DECODERS, *GROWING, *SEQ2SEQ, *ENCODERS])
def test_bfloat16_has_its_kernels(name: str, target: Target, numbers: Precision) -> None:
    model = tiny(name)
    for part in parts(model):
        graph = emit(model, part, pytest.fail, precision=numbers, target=target, context=24).graph
        assert [*lacking(graph)] == []


def test_a_float_is_followed_until_it_is_cast() -> None:
    x = ir.Value(name="x", type=ir.TensorType(BFLOAT16))
    near, cast = ir.Node("", "Abs", [x]), ir.Node("", "Cast", [x], [ir.AttrInt64("to", ir.DataType.FLOAT.value)])
    nodes = [near, cast, ir.Node("", "Log", near.outputs), ir.Node("", "Clip", cast.outputs)]
    assert [*lacking(ir.Graph([x], [], nodes=nodes))] == ["Log"]


def test_4_bits_in_blocks_of_256_are_for_the_cpu() -> None:
    assert precision("int4", block=256).blocks
    for numbers in ("fp16", "bf16"):
        with pytest.raises(UsageError, match="no kernel on CUDA"):
            precision("int4", block=256, compute=numbers)  # type: ignore[arg-type]
