"""Latent attention on latents: what PyTorch computes with keys and values, which no graph that steps makes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx_cases import random_module, stored
from tiny import tiny

from archspec.exporters.onnx.emit import emit, parts
from archspec.exporters.onnx.precision import FP32, Precision, precision, storage
from archspec.exporters.onnx.rounded import rounded
from archspec.exporters.onnx.sidecar import write_weights
from archspec.exporters.onnx.twin import twin
from archspec.exporters.onnx.verify import Case, Graph, loaded, on_cpu, reference, request, stepped
from archspec.ops.model import Model

INT4 = precision("int4", block=16)
#: Ranks and widths that are not each other's: latents of 16, heads of 8 + 4, values of 6.
MLA = ("decoder.attention.kv_lora_rank=16",)


def written(model: Model, numbers: Precision, folder: Path) -> dict[str, Graph]:
    weights = stored(random_module(model))
    graphs = {part: emit(model, part, weights, precision=numbers, target="ort", context=24) for part in parts(model)}
    write_weights(list(graphs.values()), folder, lambda stage, share: None)
    for part, graph in graphs.items():
        ir.save(graph, folder / parts(model)[part])
    return {
        part: Graph(
            folder / parts(model)[part], on_cpu if numbers == FP32 else partial(twin, exact=graph.meta["exact"])
        )
        for part, graph in graphs.items()
    }


@pytest.mark.parametrize(
    ("name", "overrides", "numbers"),
    [
        ("mla", (), FP32),
        ("mla", MLA, FP32),
        ("mla", MLA, INT4),
        ("mla", (), precision("fp16")),
        ("latents", (), FP32),
    ],
)
@pytest.mark.parametrize("cuts", [(9, 1, 1, 2, 1), (1, 1, 1, 1, 6), (14,)])
def test_steps_are_pytorchs(
    name: str, overrides: tuple[str, ...], numbers: Precision, cuts: tuple[int, ...], tmp_path: Path
) -> None:
    """`mla` has one layer that sees everything and one with a window of 5; rows are padded in a batch."""
    model = tiny(name, *overrides)
    opened = written(model, numbers, tmp_path)
    module = loaded(model, rounded(model, stored(random_module(model)), storage(model, numbers)))
    for batch in (1, 3):
        feed = request(model, Case(batch, cuts, True, 7), 0)
        want = reference(module, feed)
        crossed = opened["encoder"].run(feed) if "encoder" in opened else {}
        got, columns = stepped(opened["cached"], feed | crossed, cuts)
        tokens = feed["attention_mask"][:, columns] > 0
        assert np.abs(got - want[:, columns])[tokens].max() < 1e-4 * want.std()
        (whole,) = opened["logits"].run(feed).values()
        assert np.abs(whole - want)[feed["attention_mask"] > 0].max() < 1e-4 * want.std()


def test_the_past_meets_latents_and_nothing_that_is_made_of_them() -> None:
    """What comes of the caches goes into products with queries and with shares, and into none with a weight."""
    graph = emit(tiny("mla"), "cached", pytest.fail, target="ort").graph
    past = {v for v in graph.inputs if str(v.name).startswith("past.")}
    for node in graph:  # in order
        if node.op_type in ("Concat", "Transpose", "Squeeze", "Reshape") and past & {*node.inputs}:
            past |= {*node.outputs}
    products = [n for n in graph if n.op_type in ("MatMul", "Gemm", "Attention") and past & {*n.inputs}]
    assert [n.op_type for n in products] == ["MatMul"] * 4  # two in each of two layers
    assert not [v for n in products for v in n.inputs if v and v.const_value]


def test_the_graphs_of_a_folder_read_the_same_bytes(tmp_path: Path) -> None:
    model = tiny("mla")
    written(model, FP32, tmp_path)
    places: dict[str, set[tuple[str, str]]] = {}
    for file in parts(model).values():
        for stands in onnx.load(tmp_path / file, load_external_data=False).graph.initializer:
            if "k_up" in stands.name or "v_up" in stands.name:
                where = {e.key: e.value for e in stands.external_data}
                at = stands.name.partition("_up")[0]
                places.setdefault(at, set()).add((where["offset"], where["length"]))
    assert {at: len(found) for at, found in places.items()} == dict.fromkeys(places, 1)
    assert len(places) == 4


def test_matrices_beside_latents_are_in_no_blocks() -> None:
    kept = storage(tiny("mla", *MLA), INT4)
    beside = {path for path, reason in kept.left.items() if reason == "matrices beside latents"}
    assert beside == {f"decoder.layers.{i}.attention.{name}_up.weight" for i in (0, 1) for name in "kv"}


def test_an_encoders_latents_are_not_kept_and_make_keys_and_values() -> None:
    said = {part: emit(tiny("latents"), part, pytest.fail, target="ort") for part in parts(tiny("latents"))}
    assert "1 of 1 latent attentions are computed on latents" in map(str, said["cached"].meta["fusions"])
    assert "encoder.layers.0.attention.k_up.weight" in said["encoder"].graph.initializers
