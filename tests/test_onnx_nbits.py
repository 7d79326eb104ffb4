"""Weights in blocks as a file holds them, and as ONNX Runtime reads them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx_cases import random_module, stored
from tiny import tiny

from archspec.compiler.precision import Precision, precision
from archspec.exporters.onnx.blockwise import packed
from archspec.exporters.onnx.emit import Target, emit
from archspec.exporters.onnx.export import ExportSummary, export
from archspec.exporters.onnx.questions import Case, fitting, request
from archspec.exporters.onnx.twin import twin

ROOM = 64


def written(name: str, out: Path, what: Precision, target: Target, *overrides: str) -> ExportSummary:
    model = tiny(name, "d_model=64", *overrides)
    weights = stored(random_module(model))
    return export(model, weights, "x: 1\n", out, verify=False, precision=what, target=target, context_length=64)


def places(file: Path) -> dict[str, tuple[int, int]]:
    """Initializer -> where its bytes are: offset and length."""
    found = {}
    for tensor in onnx.load(file, load_external_data=False).graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            at = {entry.key: entry.value for entry in tensor.external_data}
            found[tensor.name] = int(at["offset"]), int(at["length"])
    return found


def operators(file: Path) -> Counter[str]:
    return Counter(node.op_type for node in onnx.load(file, load_external_data=False).graph.node)


# ------------------------------------------------------------------------------------------------------------- the file


def test_two_codes_a_byte_the_first_one_low() -> None:
    assert packed(np.array([[1, 2, 15, 0]], np.uint8)).tolist() == [[0x21, 0x0F]]


@pytest.mark.parametrize(
    ("bits", "symmetric", "codes", "zeros"),
    [(4, True, 1536, 0), (4, False, 1536, 48), (8, True, 3072, 0), (8, False, 3072, 96)],
)
@pytest.mark.parametrize("target", ["onnx", "ort"])
def test_bytes_of_one_matrix(
    bits: int, symmetric: bool, codes: int, zeros: int, target: Target, tmp_path: Path
) -> None:
    """48 rows of 64 in blocks of 32: 3,072 codes, 96 scales of 4 bytes, 96 zeros."""
    what = precision("int4" if bits == 4 else "int8", symmetric=symmetric)
    written("gpt2", tmp_path / "out", what, target)
    held = [n for name, (_, n) in places(tmp_path / "out/model.onnx").items() if "layers.0.ffn.up.weight" in name]
    assert sorted(held) == sorted([codes, 384, *([zeros] if zeros else [])])


@pytest.mark.parametrize("target", ["onnx", "ort"])
@pytest.mark.parametrize("compute", ["fp32", "fp16"])
def test_bytes_of_a_whole_model(target: Target, compute: str, tmp_path: Path) -> None:
    """A llama of 62 tokens, 64 wide, in blocks of 16, by hand.

    4 bits: the table and the head, 62 x 64 each; in 3 layers q and o 64 x 64, k and v 32 x 64, gate and up 48 x 64 and down
    64 x 48. Floats: 2 norms of 64 a layer and one at the end, q's and k's of 16 a layer. For a fused rotation, angles of 64
    positions, 8 of a head: cosine and sine.
    """
    wide = 4 if compute == "fp32" else 2
    summary = written("llama", tmp_path / "out", precision("int4", block=16, compute=compute), target, "vocab_size=62")
    weights = 2 * 62 * 64 + 3 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 48 * 64)
    floats = 3 * (2 * 64 + 2 * 16) + 64 + (2 * 64 * 8 if target == "ort" else 0)
    exact = weights // 2 + weights // 16 * wide + floats * wide
    tensors = len(places(tmp_path / "out/model.onnx"))
    assert exact <= summary.weight_bytes <= exact + ROOM * tensors


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("target", ["onnx", "ort"])
@pytest.mark.parametrize("vocab", [61, 62])
def test_a_tied_table_is_in_the_file_once(bits: int, target: Target, vocab: int, tmp_path: Path) -> None:
    """Token vectors and the head's matrix are one run of bytes, in two shapes; so are their scales."""
    what = precision("int4" if bits == 4 else "int8", block=16)
    summary = written("gpt2", tmp_path / "out", what, target, f"vocab_size={vocab}")
    table = {n: at for n, at in places(tmp_path / "out/model.onnx").items() if "tokens" in n}
    assert {n for _, n in table.values()} == {vocab * 64 * bits // 8, vocab * 4 * 4}
    assert len(set(table.values())) == 2
    assert len(table) == (4 if target == "onnx" else 3)  # ONNX Runtime's own operators read scales in one shape
    held = {at for file in ("model.onnx", "logits.onnx") for at in places(tmp_path / "out" / file).values()}
    assert sum(n for _, n in held) <= summary.weight_bytes <= sum(n for _, n in held) + ROOM * len(held)


def test_experts_are_written_one_stack_after_the_other(tmp_path: Path) -> None:
    """As they lie in a checkpoint, so that each stack is read from its beginning to its end."""
    written("moe", tmp_path / "out", precision("int4", block=16), "onnx")
    held = places(tmp_path / "out/model.onnx")
    of_layer = [n for n in sorted(held, key=lambda n: held[n]) if "layers.1.ffn.expert" in n and "scale" not in n]
    stacks = [name.split(".expert.")[1].split(".")[0] for name in of_layer]
    assert len(stacks) == 18
    assert sum(a != b for a, b in pairwise(stacks)) == 2


def test_a_graph_in_blocks_is_made_without_a_weight(tmp_path: Path) -> None:
    for target in ("onnx", "ort"):
        graph = emit(
            tiny("moe", "d_model=64"), "cached", pytest.fail, precision=precision("int4", block=16), target=target
        )  # type: ignore[arg-type]
        assert len(graph.graph) > 100


# ----------------------------------------------------------------------------------------------------------- operators


@pytest.mark.parametrize("name", ["int4", "int8"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_onnx_runtime_fuses_the_standard_form_by_itself(name: str, symmetric: bool, tmp_path: Path) -> None:
    """Two layers of q, k, v, o, up and down, and the head: 13 products, and no weight is made into floats."""
    written("gpt2", tmp_path / "out", precision(name, block=16, symmetric=symmetric), "onnx")  # type: ignore[arg-type]
    assert operators(tmp_path / "out/model.onnx")["DequantizeLinear"] == 13
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    onnxruntime.InferenceSession(tmp_path / "out/model.onnx", options, providers=["CPUExecutionProvider"])
    fused = operators(tmp_path / "optimised.onnx")
    assert (fused["MatMulNBits"], fused["DequantizeLinear"]) == (13, 0)


def test_ort_has_one_operator_a_product_and_a_table(tmp_path: Path) -> None:
    """q, k and v are one: 4 products a layer, and the head."""
    summary = written("gpt2", tmp_path / "out", precision("int4", block=16), "ort")
    nodes = operators(tmp_path / "out/model.onnx")
    assert (nodes["MatMulNBits"], nodes["GatherBlockQuantized"], nodes["DequantizeLinear"], nodes["MatMul"]) == (
        9,
        1,
        0,
        0,
    )
    said = [str(fusion) for fusion in summary.fusions]
    assert "9 of 9 products with matrices in blocks are MatMulNBits" in said
    assert "1 of 1 tables in blocks are GatherBlockQuantized" in said


def test_projections_of_different_precision_are_not_packed(tmp_path: Path) -> None:
    summary = written(
        "gpt2", tmp_path / "out", precision("int4", block=16, keep=("decoder.layers.0.attention.k",)), "ort"
    )
    assert "1 of 2 query, key and value projections are one product; 1: some in blocks, some not" in map(
        str, summary.fusions
    )
    assert operators(tmp_path / "out/model.onnx")["MatMulNBits"] == 10


@pytest.mark.parametrize("name", ["gpt2", "llama", "albert", "experts", "t5like"])
@pytest.mark.parametrize("what", [("int4", True), ("int4", False), ("int8", False)])
def test_both_targets_hold_the_same_numbers(name: str, what: tuple[str, bool], tmp_path: Path) -> None:
    """The same codes in two layouts, read by different operators: in float32 they give the same."""
    got = []
    for target in ("onnx", "ort"):
        written(name, tmp_path / target, precision(what[0], block=16, symmetric=what[1]), target)  # type: ignore[arg-type]
        file = "model.onnx" if name == "albert" else "logits.onnx"
        session = twin(tmp_path / target / file, {})
        feed = request(tiny(name, "d_model=64"), fitting(Case(2, (9,), True, 5), tiny(name)), 0)
        got.append(
            session.run(None, {i.name: feed[i.name] for i in session.get_inputs()})[0][feed["attention_mask"] > 0]
        )
    assert np.abs(got[0] - got[1]).max() < 1e-4
