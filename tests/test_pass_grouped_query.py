"""Attention by ONNX Runtime's grouped-query kernel, with plain numpy and I/O binding: against PyTorch, which sees whole texts."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from onnx_cases import random_module, rows_of, stored
from tiny import DECODERS, tiny

from archspec.exporters.onnx.answers import reference
from archspec.exporters.onnx.emit import emit
from archspec.exporters.onnx.graph import Array
from archspec.exporters.onnx.sidecar import write_weights
from archspec.exporters.onnx.verify import Graph
from archspec.exporters.torch.module import Transformer

CONTEXT = 64
CLOSE = 1e-4
Caches = dict[str, Array]
FULL = "decoder.layers=2"


@cache
def graph_of(name: str, *overrides: str) -> tuple[Graph, Transformer, list[str]]:
    """The cached graph of a tiny model, the model itself, and what was said about the fusion."""
    model = tiny(name, f"context_length={CONTEXT}", *overrides)
    module = random_module(model)
    graph = emit(model, "cached", stored(module), target="ort", context=CONTEXT)
    with tempfile.TemporaryDirectory() as folder:
        write_weights([graph], Path(folder), lambda stage, share: None)
        ir.save(graph, Path(folder) / "model.onnx")
        opened = Graph(Path(folder) / "model.onnx")
    return opened, module, [str(f) for f in graph.meta["fusions"] if f.operator == "GroupQueryAttention"]


def ids_of(module: Transformer, batch: int, length: int) -> Array:
    return np.random.default_rng(length).integers(module.op.main[1].embedding.vocab, size=(batch, length))


def request(ids: Array, mask: Array) -> dict[str, Array]:
    """What a graph may want to know of new tokens."""
    zeros = np.zeros(len(ids), np.int64)
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": ids * 0, "prefix_length": zeros}


def whole(module: Transformer, ids: Array) -> Array:
    return reference(module, request(ids, np.ones_like(ids)))


def empty(graph: Graph, batch: int, spare: int = 0) -> Caches:
    """Caches with nothing in them: buffers for a context, or for a window and `spare` rows."""

    def rows(dimension: str) -> int:
        return (rows_of(dimension) or CONTEXT - spare) + spare if dimension.startswith("capacity") else 0

    slots = {n: s for n, s in graph.inputs.items() if n.startswith("past.")}
    return {n: np.zeros((batch, s[1], rows(s[2]), s[3]), np.float32) for n, s in slots.items()}


def call(graph: Graph, ids: Array, mask: Array, caches: Caches) -> tuple[Array, Caches]:
    out = graph.run({**request(ids, mask), **caches})
    return out["logits"], {n: kept(graph, n, out[n.replace("past", "present", 1)]) for n in caches}


def kept(graph: Graph, name: str, present: Array) -> Array:
    """A cache that grows is cut to what later tokens see; a buffer stays."""
    dimension = graph.inputs[name][2]
    rows = rows_of(dimension)
    return present[:, :, -rows:] if rows and dimension.startswith("past") else present


def read(graph: Graph, ids: Array, cuts: tuple[int, ...], spare: int = 0) -> tuple[Array, Caches]:
    """One text in pieces -> the logits of all its tokens, the caches after it."""
    caches, at, pieces = empty(graph, 1, spare), 0, []
    for n in cuts:
        logits, caches = call(graph, ids[:, at : at + n], np.ones((1, at + n), np.int64), caches)
        pieces.append(logits)
        at += n
    return np.concatenate(pieces, 1), caches


def apart(got: Array, want: Array) -> float:
    return float(np.abs(got - want).max() / want.std())


@pytest.mark.parametrize("cuts", [(9, 1, 1, 2, 1, 1), (1, 1, 4, 6), (24,)])
@pytest.mark.parametrize("name", DECODERS)
def test_a_text_in_pieces_is_the_whole_text(name: str, cuts: tuple[int, ...]) -> None:
    """`prefix` has the empty one, so that it is causal; how it uses one is looked at in test_onnx.py."""
    graph, module, _ = graph_of(name)
    ids = ids_of(module, 1, sum(cuts))
    got, _ = read(graph, ids, cuts)
    assert apart(got, whole(module, ids)) < CLOSE


WIDTHS = (
    "decoder.attention.head_dim=8",
    "decoder.attention.head_dim=16",
    "decoder.attention.head_dim=24",
    "decoder.attention.head_dim=32",
)
INTERLEAVED = "decoder.attention.position={kind: rope, pairing: interleaved}"
PARTIAL = "decoder.attention.position={kind: rope, dim: 16, pairing: interleaved}"
SCALED = "decoder.attention.position={kind: rope, scaling: {kind: yarn, factor: 4, original_context: 6}}"


@pytest.mark.parametrize(
    "overrides",
    [
        *((width, FULL) for width in WIDTHS),
        (WIDTHS[0], INTERLEAVED),
        (WIDTHS[1], INTERLEAVED),
        (WIDTHS[3], PARTIAL, FULL),
        (WIDTHS[1], SCALED),
        (WIDTHS[1], "decoder.attention.softcap=2.0"),
        (WIDTHS[1], "decoder.attention.sinks=true"),
        (WIDTHS[1], "decoder.attention.sinks=true", "decoder.attention.softcap=2.0"),
        (WIDTHS[1], "decoder.attention.kv_heads=1", "decoder.attention.scale=0.5"),
        (WIDTHS[1], "decoder.attention.kv_heads=4", "decoder.attention.qk_norm=none"),
        (WIDTHS[1], "decoder.attention.bias=true", "decoder.attention.qk_norm=none"),
    ],
)
def test_heads_of_many_kinds(overrides: tuple[str, ...]) -> None:
    graph, module, said = graph_of("llama", *overrides)
    layers = len(graph.outputs) // 2
    assert said == [f"{layers} of {layers} attentions are GroupQueryAttention"]
    ids = ids_of(module, 1, 20)
    for cuts in ((7, 1, 1, 1, 6, 4), (20,)):
        got, _ = read(graph, ids, cuts)
        assert apart(got, whole(module, ids)) < CLOSE


@pytest.mark.parametrize("spare", [0, 1, 3])
@pytest.mark.parametrize("name", ["llama", "sinks", "shared"])
def test_a_text_far_longer_than_the_window_keeps_to_its_buffer(name: str, spare: int) -> None:
    graph, module, _ = graph_of(name)
    cuts = (5, *[1] * 20, 11, *[1] * 20)
    ids = ids_of(module, 1, sum(cuts))
    got, caches = read(graph, ids, cuts, spare)
    assert apart(got, whole(module, ids)) < CLOSE
    windows = {n: rows_of(graph.inputs[n][2]) for n in caches}
    assert {caches[n].shape[2] - w for n, w in windows.items() if w} == {spare}


@pytest.mark.parametrize("name", ["gpt2", "llama", "sinks", "odd", "experts"])
def test_rows_of_different_lengths_go_on_together(name: str) -> None:
    graph, module, _ = graph_of(name)
    lengths = (13, 2, 7)
    texts = [ids_of(module, 1, n) for n in lengths]
    alone = [read(graph, ids, (n,)) for n, ids in zip(lengths, texts, strict=True)]
    caches = {n: np.concatenate([c[n] for _, c in alone]) for n in alone[0][1]}
    mask = np.array([[0] * (max(lengths) - n) + [1] * n for n in lengths])
    for step in range(5):
        new = ids_of(module, 3, 1) + step
        mask = np.concatenate([mask, np.ones((3, 1), np.int64)], 1)
        logits, caches = call(graph, new, mask, caches)
        texts = [np.concatenate([ids, new[b : b + 1]], 1) for b, ids in enumerate(texts)]
        for row, ids in zip(logits, texts, strict=True):
            want = whole(module, ids)
            assert np.abs(row[-1] - want[0, -1]).max() / want.std() < CLOSE


@pytest.mark.parametrize("name", ["gpt2", "llama", "sinks"])
def test_one_buffer_is_past_and_present(name: str) -> None:
    """The kernel writes a token's rows where the buffer is, and moves none of the others."""
    graph, module, _ = graph_of(name)
    length = 30
    ids = ids_of(module, 1, length)
    want = whole(module, ids)
    held = {n: onnxruntime.OrtValue.ortvalue_from_numpy(a) for n, a in empty(graph, 1, 2).items()}
    places = {n: v.data_ptr() for n, v in held.items()}
    binding = graph.session.io_binding()
    for name_of, value in held.items():
        binding.bind_ortvalue_input(name_of, value)
        binding.bind_ortvalue_output(name_of.replace("past", "present", 1), value)
    for at in range(length):
        binding.bind_cpu_input("input_ids", ids[:, at : at + 1])
        binding.bind_cpu_input("attention_mask", np.ones((1, at + 1), np.int64))
        binding.bind_output("logits")
        before = {n: v.numpy().copy() for n, v in held.items()}
        graph.session.run_with_iobinding(binding)
        (logits,) = (
            v.numpy() for v in binding.get_outputs() if v.shape()[-1] == want.shape[-1] and len(v.shape()) == 3
        )
        assert np.abs(logits[0, 0] - want[0, at]).max() / want.std() < CLOSE
        for n, value in held.items():
            if rows_of(graph.inputs[n][2]) is None:
                changed = np.flatnonzero((value.numpy() != before[n]).any((0, 1, 3)))
                assert changed.tolist() == [at]
    assert {n: v.data_ptr() for n, v in held.items()} == places


@pytest.mark.parametrize(
    ("name", "overrides", "said"),
    [
        ("sandwich", (), "2 attentions stay as they are: values of another width than keys"),
        ("prefix", (), "2 attentions stay as they are: a prefix mask"),
        ("chunk", (), "1 of 2 attentions are GroupQueryAttention; 1: chunks"),
        ("alibi", (), "2 attentions stay as they are: a bias by Alibi"),
        ("buckets", (), "2 attentions stay as they are: a bias by Buckets"),
        ("mla", (), "2 attentions stay as they are: keys that are made of a latent"),
        (
            "llama",
            ("decoder.attention.head_dim=12",),
            "3 attentions stay as they are: a head of 12, no multiple of 8",
        ),
    ],
)
def test_what_the_kernel_lacks_stays_and_says_why(name: str, overrides: tuple[str, ...], said: str) -> None:
    assert graph_of(name, *overrides)[2] == [said]


def test_cross_attention_and_whole_texts_keep_the_standard_form() -> None:
    def said(name: str, part: str) -> list[str]:
        fusions = emit(tiny(name), part, pytest.fail, target="ort").meta["fusions"]  # type: ignore[arg-type]
        return [str(f) for f in fusions if f.operator == "GroupQueryAttention"]

    assert said("seq2seq", "cached") == ["2 of 4 attentions are GroupQueryAttention; 2: keys of a source"]
    assert said("llama", "logits") == said("bert", "logits") == []
