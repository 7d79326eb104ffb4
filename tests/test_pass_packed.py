"""Queries, keys and values as one product: the same numbers, and in the file the same weights, one beside the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx_cases import random_module, stored
from tiny import DECODERS, ENCODERS, SEQ2SEQ, tiny

from archspec.compiler.precision import FP32, precision
from archspec.exporters.onnx.answers import reference
from archspec.exporters.onnx.emit import emit, parts
from archspec.exporters.onnx.questions import Case, request
from archspec.exporters.onnx.sidecar import write_weights
from archspec.exporters.onnx.verify import Graph
from archspec.exporters.torch.module import Transformer
from archspec.ops.model import Model


def written(model: Model, module: Transformer, folder: Path) -> Path:
    graphs = {part: emit(model, part, stored(module), target="ort") for part in parts(model)}
    write_weights(list(graphs.values()), folder, lambda stage, share: None)
    for part, graph in graphs.items():
        ir.save(graph, folder / parts(model)[part])
    return folder


def arrays(path: Path) -> dict[str, np.ndarray]:
    return {i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}


@pytest.mark.parametrize("name", [*DECODERS, *SEQ2SEQ, *ENCODERS])
def test_whole_texts_are_pytorchs(name: str, tmp_path: Path) -> None:
    model = tiny(name)
    module = random_module(model)
    feed = request(model, Case(2, (7,), True, 5), 0)
    want = reference(module, feed)
    written(model, module, tmp_path)
    got = Graph(tmp_path / parts(model)["logits"]).run(feed)
    (out,) = got.values()
    tokens = feed["attention_mask"] > 0 if out.ndim == 3 else slice(None)
    assert np.abs(out - want)[tokens].max() < 1e-4 * want.std()


@pytest.mark.parametrize(
    ("name", "overrides", "biases"),
    [("llama", (), None), ("gpt2", (), "qkv"), ("parallel", (), "qv"), ("gpt2", ("decoder.attention.bias=[k]",), "k")],
)
def test_the_one_weight_is_the_three_in_all_graphs(
    name: str, overrides: tuple[str, ...], biases: str | None, tmp_path: Path
) -> None:
    model = tiny(name, *overrides)
    module = random_module(model)
    held, weights = written(model, module, tmp_path), stored(module)
    place = "decoder.layers.1.attention."
    for file in parts(model).values():
        stands = arrays(held / file)
        assert not {f"{place}{n}.weight" for n in "qkv"} & stands.keys()
        three = [weights(f"{place}{n}.weight").T for n in "qkv"]
        assert (stands[f"{place}qkv.weight"] == np.hstack(three)).all()
        assert (f"{place}qkv.bias" in stands) == (biases is not None)
        if biases is not None:
            parts_of = [
                weights(f"{place}{n}.bias") if n in biases else np.zeros(w.shape[1])
                for n, w in zip("qkv", three, strict=True)
            ]
            assert (stands[f"{place}qkv.bias"] == np.concatenate(parts_of)).all()
    offsets = {file: offset_of(held / file, f"{place}qkv.weight") for file in parts(model).values()}
    assert len(set(offsets.values())) == 1


def offset_of(path: Path, name: str) -> str:
    """Where a weight stands in the file beside its graph."""
    (found,) = (i for i in onnx.load(path, load_external_data=False).graph.initializer if i.name == name)
    return {e.key: e.value for e in found.external_data}["offset"]


@pytest.mark.parametrize(
    ("name", "part", "numbers", "said"),
    [
        ("gpt2", "cached", FP32, "2 of 2"),
        ("shared", "logits", FP32, "4 of 4"),
        ("gpt2", "cached", precision("int4", block=16), "2 of 2"),
        (
            "gpt2",
            "cached",
            precision("int4", block=16, keep=("decoder.layers.1.attention.k",)),
            "1 of 2; 1: some in blocks, some not",
        ),
        ("seq2seq", "cached", FP32, "2 of 4; 2: keys are made of something else than queries"),
    ],
)
def test_what_is_packed_and_what_is_not(name: str, part: str, numbers: object, said: str) -> None:
    graph = emit(tiny(name), part, pytest.fail, target="ort", precision=numbers)  # type: ignore[arg-type]
    (fusion,) = [str(f) for f in graph.meta["fusions"] if f.operator == "one product"]
    count, *reasons = said.split("; ")
    assert fusion == "; ".join([f"{count} query, key and value projections are one product", *reasons])


def test_latents_and_cross_attention_have_nothing_to_pack() -> None:
    """Latent keys are made of a latent, and cross attention asks with one text for the keys of another."""
    graph = emit(tiny("latents"), "cached", pytest.fail, target="ort")
    assert not [f for f in graph.meta["fusions"] if f.operator == "one product"]
