"""The exported graphs, on ONNX Runtime in float32, against the built model in float64."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from onnx_cases import Exported, by_hand, exported, rows_of
from tiny import DECODERS, ENCODERS, SEQ2SEQ, TINY, tiny

from archspec.exporters.onnx.emit import emit, parts
from archspec.exporters.onnx.questions import Case, request
from archspec.exporters.onnx.verify import stepped
from archspec.language.ffn import Activation

CLOSE = 1e-4
#: Where the length stands in what has one.
FREE = {"past": 2, "present": 2, "cross": 2} | dict.fromkeys(
    ["input_ids", "attention_mask", "token_type_ids", "source_ids", "source_mask", "logits"], 1
)
#: Ways to be different that the tiny models do not have, as changes to them.
VARIANTS: list[tuple[str, ...]] = [
    *(("odd", f"decoder.attention.qk_norm.over={over}", *more)
      for over in ("head", "each_head", "vector")
      for more in ((), ("decoder.attention.qk_norm.norm={kind: layernorm, weight: 1+w}",))),
    ("llama", "decoder.attention.qk_norm={over: each_head, order: after_rope, norm: {kind: layernorm}}"),
    ("llama", "decoder.attention.qk_norm={over: head, order: after_rope, norm: {kind: l2norm}}"),
    ("llama", "decoder.attention.position={kind: rope, dim: 2, theta: 100.0}"),
    ("parallel", "decoder.parallel=one_norm"),
    ("parallel", "norm={kind: layernorm, weight: none, bias: true}"),
    ("parallel", "norm={kind: layernorm, weight: none, bias: false}"),
    ("gpt2", "norm={kind: rmsnorm, weight: none}"),
    ("gpt2", "norm={kind: layernorm, weight: 1+w, bias: false}"),
    ("gpt2", "norm={kind: layernorm, weight: none, eps_outside: true, bias: false}"),
    ("gpt2", "embedding.position={kind: learned, offset: 2, count: unpadded}"),
    ("gpt2", "embedding.position={kind: sinusoidal, offset: 1}"),
    ("gpt2", "embedding.projection={dim: 12, of: tokens, bias: false}"),
    ("gpt2", "head={kind: none}"),
    ("gpt2", "head={kind: classifier, labels: 9, pool: tokens}"),
    *(("gpt2", f"head={{kind: classifier, labels: 9, pool: {pool}}}") for pool in ("first", "last", "mean")),
    *(("classifier", f"head.pool={pool}") for pool in ("first", "last", "tokens")),
    ("bert", "head=none"),
    ("bert", "encoder.attention.window=2"),
    ("bert", "encoder.attention.window={kind: chunk, size: 3}"),
    ("prefix", "decoder.attention.window=4"),
    ("shared", "decoder.final_norm=none"),
]  # fmt: skip


def check(e: Exported, case: Case, seed: int = 0) -> None:
    """Whole, and in the case's pieces."""
    feed, want = e.send(case, seed)
    assert e.difference(e.whole(feed), want, feed) < CLOSE
    if "cached" in parts(e.model):
        got, columns = e.stepped(feed, case.cuts)
        assert columns == list(range(want.shape[1]))
        assert e.difference(got, want, feed) < CLOSE


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("cuts", [(9,), (5, 4), (1,) * 9], ids=["whole", "two", "one_by_one"])
def test_every_tiny_model_computes_what_pytorch_does(name: str, padded: bool, cuts: tuple[int, ...]) -> None:
    check(exported(name), Case(2, cuts, padded, 7))


@pytest.mark.parametrize("variant", VARIANTS, ids=" ".join)
def test_every_variant_computes_what_pytorch_does(variant: tuple[str, ...]) -> None:
    check(exported(*variant), Case(3, (5, 1, 3), True, 7))


@pytest.mark.parametrize("activation", Activation.__args__)  # type: ignore[attr-defined]
def test_every_activation(activation: str) -> None:
    check(exported("gpt2", f"decoder.ffn.activation={activation}"), Case(1, (6,), False, 1))


@pytest.mark.parametrize("batch", [1, 3, 17])
@pytest.mark.parametrize("length", [1, 2, 33])
@pytest.mark.parametrize("past", [0, 1, 64])
@pytest.mark.parametrize("name", ["gpt2", "llama", "seq2seq", "experts"])
def test_batch_length_and_past_are_free(name: str, batch: int, length: int, past: int) -> None:
    cuts = (past, length) if past else (length,)
    check(exported(name, "context_length=128"), Case(batch, cuts, False, 1 + past), seed=batch)


@pytest.mark.parametrize("name", ["llama", "sandwich", "chunk", "shared", "alibi", "sinks", "mla"])
def test_a_trimmed_cache_is_enough(name: str) -> None:
    """Of a cache only the rows that its name says."""
    e = exported(name)
    held = {rows for n, shape in e.graph("cached").inputs.items() if n.startswith("past") for rows in (shape[2],)}
    assert any(rows.startswith("past_") and int(rows[5:]) < 8 for rows in held)
    feed, want = e.send(Case(2, (1,) * 12, True, 1))
    for keep in (rows_of, lambda dimension: None):
        assert e.difference(by_hand(e.graph("cached"), feed, (7, 1, 4), keep), want, feed) < CLOSE


def test_one_row_less_is_not_enough() -> None:
    """The law above sees a cache that is trimmed too far."""
    e = exported("llama")
    feed, want = e.send(Case(1, (12,), False, 1))
    got = by_hand(e.graph("cached"), feed, (7, 1, 4), lambda dimension: 2 if rows_of(dimension) else None)
    assert e.difference(got, want, feed) > 1e-2


@pytest.mark.parametrize("start", [10_000, 1_000_000])
def test_rotation_is_exact_at_any_position(start: int) -> None:
    """Turned by position, scores depend on distance alone: a text far out gives what it gives at the start."""
    e = exported("llama", "decoder.layers=[{repeat: 2, attention: {window: 4}}]")
    graph = e.graph("cached")
    feed = request(e.model, Case(1, (6,), False, 1), 0)
    near, _ = stepped(graph, feed, (6,))
    empty = {n: np.zeros((1, s[1], 0, s[3]), np.float32) for n, s in graph.inputs.items() if n.startswith("past.")}
    far = graph.run({**feed, **empty, "attention_mask": np.ones((1, start + 6), np.int64)})["logits"]
    assert np.abs(near - far).max() < 2e-5


def test_last_only_gives_the_last_row() -> None:
    e = exported("gpt2", last_only=True)
    feed, want = e.send(Case(2, (5, 1, 3), True, 1))
    got, columns = e.stepped(feed, (5, 1, 3))
    assert got.shape == (2, 3, 61)
    assert columns == [4, 5, 8]
    assert np.abs(got - want[:, columns]).max() < CLOSE
    assert e.whole(feed).shape == (2, 9, 61)


@pytest.mark.parametrize("behind", [False, True])
def test_the_last_token_is_found_on_either_side_of_the_padding(behind: bool) -> None:
    e = exported("gpt2", last_only=True)
    graph, ids = e.graph("cached"), np.array([[7, 8, 9], [5, 6, 0]])
    mask = np.array([[1, 1, 1], [1, 1, 0]])
    if not behind:
        ids[1], mask[1] = [0, 5, 6], [0, 1, 1]
    empty = {n: np.zeros((2, s[1], 0, s[3]), np.float32) for n, s in graph.inputs.items() if n.startswith("past.")}
    got = graph.run({"input_ids": ids, "attention_mask": mask, **empty})["logits"]
    for row, text in enumerate(([7, 8, 9], [5, 6])):
        with torch.no_grad():
            want = e.exact(torch.tensor([text]))[0, -1].numpy()
        assert np.abs(got[row, 0] - want).max() < CLOSE


@pytest.mark.parametrize("name", TINY)
def test_graphs_are_valid_and_their_dimensions_free(name: str) -> None:
    e = exported(name)
    for file in parts(e.model).values():
        onnx.checker.check_model(e.folder / file, full_check=True)
        proto = onnx.load(e.folder / file, load_external_data=False)
        assert {o.domain for o in proto.opset_import} == {""}
        assert {n.domain for n in proto.graph.node} == {""}
        for port in [*proto.graph.input, *proto.graph.output]:
            dims = [d.dim_param or d.dim_value for d in port.type.tensor_type.shape.dim]
            assert dims[0] == "batch"
            axis = FREE.get(port.name.split(".")[0])
            assert axis is None or isinstance(dims[axis], str)


def test_inputs_and_outputs_have_the_stated_names() -> None:
    def ports(name: str, part: str) -> tuple[list[str], list[str]]:
        graph = exported(name).graph(part)
        return list(graph.inputs), graph.outputs

    assert ports("gpt2", "cached") == (
        ["input_ids", "attention_mask", "past.0.key", "past.0.value", "past.1.key", "past.1.value"],
        ["logits", "present.0.key", "present.0.value", "present.1.key", "present.1.value"],
    )
    assert ports("gpt2", "logits") == (["input_ids", "attention_mask"], ["logits"])
    assert ports("prefix", "logits")[0] == ["input_ids", "attention_mask", "prefix_length"]
    assert ports("bert", "logits") == (["input_ids", "attention_mask", "token_type_ids"], ["logits"])
    assert ports("pooler", "logits")[1] == ["pooled"]
    assert ports("classifier", "logits")[1] == ["labels"]
    cross = ["cross.0.key", "cross.0.value", "cross.1.key", "cross.1.value"]
    past = [n.replace("cross", "past") for n in cross]
    assert ports("seq2seq", "encoder") == (["source_ids", "source_mask"], cross)
    assert ports("seq2seq", "cached") == (
        ["input_ids", "attention_mask", "source_mask", *past, *cross],
        ["logits", *(n.replace("cross", "present") for n in cross)],
    )
    assert ports("seq2seq", "logits")[0] == ["input_ids", "source_ids", "attention_mask", "source_mask"]


def test_meaning_is_left_for_passes() -> None:
    graph = emit(tiny("llama"), "cached", lambda path: np.zeros(()))
    said = {v.metadata_props.get("archspec.mask") for n in graph.graph for v in n.outputs} - {None}
    assert said == {"tokens causal window 4", "tokens causal all"}


@pytest.mark.parametrize("name", ["gpt2", "alibi", "buckets", "sinks", "experts", "mla", "dynamic"])
def test_emission_is_linear_in_depth(name: str) -> None:
    def nodes(layers: int) -> int:
        weights = pytest.fail  # no weight is read for a graph
        return len(emit(tiny(name, f"decoder.layers={layers}"), "cached", weights).graph)

    assert nodes(96) - nodes(48) == 12 * (nodes(8) - nodes(4))


def test_every_form_is_covered() -> None:
    assert {*DECODERS, *SEQ2SEQ, *ENCODERS} == set(TINY)
    assert {tiny(n).form for n in TINY} == {"decoder", "encoder", "encoder_decoder"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_torchs_own_exporter_says_the_same() -> None:
    """A witness from outside: the built module, traced by torch, on the same inputs."""
    e = exported("llama")
    feed = request(e.model, Case(2, (9,), False, 1), 0)
    ids = torch.from_numpy(feed["input_ids"])
    program = torch.onnx.export(e.module, (ids,), dynamo=True, opset_version=18, verbose=False)
    assert program is not None
    (traced,) = program(ids)
    assert np.abs(traced.numpy() - e.whole(feed)).max() < CLOSE
