"""A sum and its norm as one node, in half of a float: the float32 twin of the graph against PyTorch."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx_cases import random_module, stored
from tiny import tiny

from archspec.compiler.precision import FP32, precision, storage
from archspec.exporters.onnx.answers import loaded, reference
from archspec.exporters.onnx.emit import emit
from archspec.exporters.onnx.questions import Case, request
from archspec.exporters.onnx.rounded import rounded
from archspec.exporters.onnx.sidecar import write_weights
from archspec.exporters.onnx.twin import twin
from archspec.exporters.onnx.verify import Graph, on_cpu

HALF = precision("fp16")
KERNELS = ("SkipSimplifiedLayerNormalization", "SkipLayerNormalization")
NORMS = ("RMSNormalization", "LayerNormalization")


@pytest.mark.parametrize(
    "name", ["gpt2", "llama", "sandwich", "parallel", "seq2seq", "bert", "gates", "latents", "moe"]
)
def test_the_sum_goes_on_and_its_norm_beside_it(name: str, tmp_path: Path) -> None:
    model = tiny(name)
    weights = stored(random_module(model))
    graph = emit(model, "logits", weights, precision=HALF, target="ort")
    write_weights([graph], tmp_path, lambda stage, share: None)
    ir.save(graph, tmp_path / "logits.onnx")
    feed = request(model, Case(2, (7,), True, 5), 0)
    want = reference(loaded(model, rounded(model, weights, storage(model, HALF))), feed)
    opened = Graph(tmp_path / "logits.onnx", partial(twin, exact=graph.meta["exact"]))
    (got,) = opened.run(feed).values()
    tokens = feed["attention_mask"] > 0
    assert np.abs(got - want)[tokens].max() < 1e-4 * want.std()
    (rough,) = Graph(tmp_path / "logits.onnx", on_cpu).run(feed).values()  # the kernels of half precision
    assert np.abs(rough - want)[tokens].max() < 0.1 * want.std()


@pytest.mark.parametrize(
    ("name", "fused", "left"),
    [
        # the embeddings' sum, two in each of two layers; all biases of `o` and `down` inside
        ("gpt2", 5, {}),
        # two in each of three layers, but for the first norm, which reads the embedding
        ("llama", 6, {}),
        # two norms of one sum, once between two layers
        ("parallel", 2, {"another norm of the same sum": 1}),
    ],
)
def test_which_norms_are_fused(name: str, fused: int, left: dict[str, int]) -> None:
    graph = emit(tiny(name), "cached", pytest.fail, precision=HALF, target="ort")
    (said,) = (f for f in graph.meta["fusions"] if f.what == "norms of a sum")
    assert (said.fused, dict(said.left)) == (fused, left)
    kinds = Counter(node.op_type for node in graph.graph)
    assert sum(kinds[kernel] for kernel in KERNELS) == fused


def test_a_linears_bias_goes_along() -> None:
    graph = emit(tiny("gpt2"), "logits", pytest.fail, precision=HALF, target="ort")
    biases = [node.inputs[4].name for node in graph.graph if node.op_type in KERNELS and len(node.inputs) == 5]
    assert biases == [f"decoder.layers.{i}.{name}.bias" for i in (0, 1) for name in ("attention.o", "ffn.down")]
    added = {value.name for node in graph.graph if node.op_type == "Add" for value in node.inputs if value}
    assert not added & set(biases)


def test_a_norm_without_a_weight_stays() -> None:
    graph = emit(tiny("llama", "decoder.norm.weight=none"), "logits", pytest.fail, precision=HALF, target="ort")
    (said,) = (f for f in graph.meta["fusions"] if f.what == "norms of a sum")
    assert said.fused == 0
    assert dict(said.left) == {"no weight of its own": 6}


def test_float32_keeps_them_apart_and_says_why() -> None:
    graph = emit(tiny("llama"), "cached", pytest.fail, precision=FP32, target="ort")
    kinds = Counter(node.op_type for node in graph.graph)
    assert not any(kinds[kernel] for kernel in KERNELS)
    assert "6 norms of a sum stay as they are: in float32 the CPU is faster with two nodes" in map(
        str, graph.meta["fusions"]
    )
