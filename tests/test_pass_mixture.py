"""Mixtures of experts by ONNX Runtime's own kernels, against PyTorch; what they cannot compute stays, and says why."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx_cases import random_module, stored

from archspec.compiler.lower import lower
from archspec.compiler.precision import FP32, Precision, precision, storage
from archspec.compiler.resolve import resolve_text
from archspec.exporters.onnx.answers import loaded, reference
from archspec.exporters.onnx.emit import Target, emit, parts
from archspec.exporters.onnx.questions import Case, request
from archspec.exporters.onnx.rounded import rounded
from archspec.exporters.onnx.sidecar import write_weights
from archspec.exporters.onnx.twin import twin
from archspec.exporters.onnx.verify import Graph, on_cpu, stepped
from archspec.ops.model import Model

CUTS = (4, 3, 1, 1)
INT4, INT8 = precision("int4", block=16), precision("int8", block=16, symmetric=False)
ODD = precision("int4", block=32, symmetric=False)  # one zero a row: half a byte


def model(ffn: str, experts: int = 64, layers: int | str = 2, top_k: int = 3, width: int = 32) -> Model:
    text = f"""
archspec: 1
name: mixture
vocab_size: 61
context_length: 24
d_model: {width}
norm: {{kind: rmsnorm}}
decoder:
  layers: {layers}
  attention: {{heads: 2, position: rope}}
  ffn: {{kind: moe, experts: {experts}, top_k: {top_k}, {ffn}}}
head: {{tied: true}}
"""
    return lower(resolve_text(text, "mixture.yaml").spec)


SILU = "expert: {kind: gated, width: 32, activation: silu}"
CLAMPED = "expert: {kind: gated, width: 32, activation: quick_gelu, clamp: 0.7, up_shift: 1.0, bias: true}"
HALF_BIASED = "expert: {kind: gated, width: 32, activation: silu, bias: [up]}"
RELU = "expert: {kind: mlp, width: 32, activation: relu, bias: true}"
TANH = "expert: {kind: mlp, width: 32, activation: gelu_tanh}"
GELU = "expert: {kind: gated, width: 32, activation: gelu}"
XIELU = "expert: {kind: mlp, width: 32, activation: xielu}"
CLAMPED_LATE = "expert: {kind: gated, width: 32, activation: silu, clamp: 0.7, clamp_at: activation}"
NORMED = "expert: {kind: mlp, width: 32, activation: relu, mid_norm: {kind: rmsnorm}}"
NARROW = "expert: {kind: gated, width: 24, activation: silu}"
SOFTMAX = "router: {normalize: true, scale: 1.5}"
SHARES = "router: {normalize: false, bias: true}"
GROUPS = "groups: {count: 4, keep: 2, score: top2_sum}"
GROUPED = f"router: {{score: sigmoid, selection_bias: score, {GROUPS}, normalize: true, scale: 2.5}}"
ONE_BY_ONE = "router: {score: sparsemixer, within: 0.5, normalize: false}"


def differences(of: Model, numbers: Precision, folder: Path, target: Target = "ort") -> dict[str, float]:
    """Largest differences from PyTorch, as shares of the logits' spread: of whole texts padded in a batch, and of one in pieces."""
    weights = stored(random_module(of))
    files = parts(of)
    graphs = {part: emit(of, part, weights, precision=numbers, target=target, context=24) for part in files}
    write_weights(list(graphs.values()), folder, lambda stage, share: None)
    for part, graph in graphs.items():
        ir.save(graph, folder / files[part])
    module = loaded(of, rounded(of, weights, storage(of, numbers)))
    opened = {
        part: Graph(folder / files[part], on_cpu if numbers == FP32 else partial(twin, exact=graph.meta["exact"]))
        for part, graph in graphs.items()
    }
    batch, one = request(of, Case(3, (9,), True, 1), 0), request(of, Case(1, CUTS, False, 1), 1)
    want = reference(module, batch)
    whole = np.abs(opened["logits"].run(batch)["logits"] - want)[batch["attention_mask"] > 0]
    pieces, columns = stepped(opened["cached"], one, CUTS)
    return {
        "whole": whole.max() / want.std(),
        "pieces": np.abs(pieces - reference(module, one)[:, columns]).max() / want.std(),
    }


@pytest.mark.parametrize(
    ("ffn", "numbers", "kernel"),
    [
        (f"{SILU}, {SOFTMAX}", FP32, "MoE"),
        (f"{SILU}, {SHARES}", FP32, "MoE"),
        (f"{HALF_BIASED}, {GROUPED}", FP32, "MoE"),
        (f"{CLAMPED}, {ONE_BY_ONE}", FP32, "MoE"),
        (f"{RELU}, {GROUPED}", FP32, "MoE"),
        (f"{TANH}, {SOFTMAX}", FP32, "MoE"),
        (f"{SILU}, {SOFTMAX}", INT4, "QMoE"),
        (f"{CLAMPED}, {GROUPED}", INT4, "QMoE"),
        (f"{SILU}, {SHARES}", ODD, "QMoE"),
        (f"{RELU}, {ONE_BY_ONE}", INT8, "QMoE"),
        (f"{SILU}, {SOFTMAX}", INT8, "QMoE"),
        (f"{SILU}, {SOFTMAX}", precision("fp16"), "MoE"),
    ],
)
def test_the_kernels_compute_what_pytorch_does(ffn: str, numbers: Precision, kernel: str, tmp_path: Path) -> None:
    made = model(ffn)
    graph = emit(made, "cached", pytest.fail, precision=numbers, target="ort")
    assert [n.op_type for n in graph.graph if n.domain == "com.microsoft" and "MoE" in n.op_type] == [kernel] * 2
    assert f"2 of 2 mixtures of experts are {kernel}" in map(str, graph.meta["fusions"])
    assert max(differences(made, numbers, tmp_path).values()) < 1e-4


WIDE = "expert: {kind: gated, width: 64, activation: silu, bias: [up]}"


@pytest.mark.parametrize("numbers", [precision("int4", compute="fp16"), precision("int8", block=16, compute="bf16")])
def test_in_half_of_a_float_the_kernel_is_cudas(numbers: Precision, tmp_path: Path) -> None:
    made = model(f"{WIDE}, {GROUPED}", 8, width=64)
    graph = emit(made, "cached", pytest.fail, precision=numbers, target="ort")
    assert "2 of 2 mixtures of experts are QMoE" in map(str, graph.meta["fusions"])
    assert max(differences(made, numbers, tmp_path).values()) < 1e-4


@pytest.mark.parametrize(
    ("ffn", "width", "numbers", "reason"),
    [
        (WIDE, 32, precision("int4", compute="fp16"), "experts of 64 by 32, where CUDA's kernel wants multiples of 64"),
        (SILU, 64, precision("int4", compute="bf16"), "experts of 32 by 64, where CUDA's kernel wants multiples of 64"),
        (
            WIDE,
            64,
            precision("int8", block=16, symmetric=False, compute="fp16"),
            "asymmetric blocks of 16, where CUDA's kernel wants 32 or more",
        ),
    ],
)
def test_what_cudas_kernel_lacks_stays(ffn: str, width: int, numbers: Precision, reason: str) -> None:
    graph = emit(model(f"{ffn}, {SOFTMAX}", 8, width=width), "cached", pytest.fail, precision=numbers, target="ort")
    assert f"2 mixtures of experts stay as they are: {reason}" in map(str, graph.meta["fusions"])


@pytest.mark.parametrize(
    ("ffn", "experts", "numbers", "reason"),
    [
        (f"{SILU}, {SOFTMAX}", 63, FP32, "fewer than 64 experts"),
        (f"{GELU}, {SOFTMAX}", 64, FP32, "experts with gelu"),
        (f"{XIELU}, {SOFTMAX}", 64, INT4, "experts with xielu"),
        (f"{CLAMPED_LATE}, {SOFTMAX}", 64, FP32, "a clamp of the activated gate"),
        (f"{NORMED}, {SOFTMAX}", 64, FP32, "a norm of each expert"),
        (f"{SILU}, {SOFTMAX}, expert_norm: {{}}", 64, FP32, "a norm of each expert"),
        (
            f"{SILU}, router: {{normalize: true, applies_to: input}}",
            64,
            FP32,
            "weights on the input of several experts",
        ),
        (f"{NARROW}, {SOFTMAX}", 64, INT4, "experts in blocks in part"),
    ],
)
def test_what_the_kernels_lack_stays_and_says_why(
    ffn: str, experts: int, numbers: Precision, reason: str, tmp_path: Path
) -> None:
    made = model(ffn, experts, layers=1)
    graph = emit(made, "logits", pytest.fail, precision=numbers, target="ort")
    (said,) = [str(f) for f in graph.meta["fusions"] if f.what == "mixtures of experts"]
    assert said == f"1 mixtures of experts stay as they are: {reason}"
    assert max(differences(made, numbers, tmp_path).values()) < 1e-4


@pytest.mark.parametrize("numbers", [FP32, INT4])
def test_a_weight_on_the_input_of_one_expert(numbers: Precision, tmp_path: Path) -> None:
    made = model(f"{SILU}, router: {{score: sigmoid, normalize: false, applies_to: input}}", layers=1, top_k=1)
    graph = emit(made, "logits", pytest.fail, precision=numbers, target="ort")
    assert "1 of 1 mixtures of experts are" in str(next(f for f in graph.meta["fusions"] if "mixtures" in f.what))
    assert max(differences(made, numbers, tmp_path).values()) < 1e-4


def test_few_experts_in_blocks_are_a_kernel_too() -> None:
    graph = emit(model(f"{SILU}, {SOFTMAX}", 4), "cached", pytest.fail, precision=INT4, target="ort")
    assert "2 of 2 mixtures of experts are QMoE" in map(str, graph.meta["fusions"])


def test_the_file_holds_each_weight_once_and_rows_of_gate_and_up_in_turn(tmp_path: Path) -> None:
    made = model(f"{SILU}, {SOFTMAX}", layers=1)
    module = random_module(made)
    differences(made, FP32, tmp_path)
    held = [onnx.load(tmp_path / file).graph.initializer for file in ("model.onnx", "logits.onnx")]
    for initializers in held:
        arrays = {i.name: onnx.numpy_helper.to_array(i) for i in initializers}
        both = arrays["decoder.layers.0.ffn.expert.gate_up.weight"]
        gate, up = (stored(module)(f"decoder.layers.0.ffn.expert.{n}.weight") for n in ("gate", "up"))
        assert (both[:, 0::2] == gate).all()
        assert (both[:, 1::2] == up).all()
    parameters = sum(p.numel() for _, p in module.stored())
    tables = 2 * 24 * 8  # the rotation's angles
    assert 0 <= (tmp_path / "model.onnx.data").stat().st_size - 4 * (parameters + tables) < 64 * len(held[0]) + 4096


def test_layers_that_share_their_weights_share_them_with_the_kernel(tmp_path: Path) -> None:
    made = model(f"{SILU}, {SOFTMAX}", layers="[{repeat: 2, weights: shared}]")
    graph = emit(made, "logits", pytest.fail, target="ort")
    first, second = (n for n in graph.graph if n.op_type == "MoE")
    assert [i for i in first.inputs if i and i.const_value] == [i for i in second.inputs if i and i.const_value]
    assert max(differences(made, FP32, tmp_path).values()) < 1e-4


def test_a_graph_does_not_grow_with_its_experts() -> None:
    def nodes(experts: int, target: Target) -> int:
        return len(emit(model(f"{SILU}, {SOFTMAX}", experts), "cached", pytest.fail, target=target).graph)

    assert nodes(64, "ort") == nodes(256, "ort")
    assert nodes(256, "onnx") > nodes(64, "onnx") + 2 * 192 * 5
