"""Biases, sinks, stretched rotations, latent attention and experts in ONNX: each alone and beside each other."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
import torch
from onnx_cases import Exported, exported, random_module, stored, verified
from tiny import GROWING, tiny

from archspec.compiler.precision import Precision
from archspec.exporters.onnx.answers import reference
from archspec.exporters.onnx.choices import untouched, watched
from archspec.exporters.onnx.emit import emit, parts
from archspec.exporters.onnx.export import export
from archspec.exporters.onnx.questions import Case, request
from archspec.exporters.runtime.options import session_options
from archspec.ops.base import walk
from archspec.ops.moe import Moe

CLOSE = 1e-4
#: As in test_onnx.py: what the tiny models do not have, as changes to them.
VARIANTS: list[tuple[str, ...]] = [
    ("alibi", "decoder.attention.softcap=2.0"),
    ("alibi", "decoder.layers=2", "decoder.attention.mask=prefix"),
    ("buckets", "decoder.attention.softcap=2.0", "decoder.attention.window=4"),
    ("buckets", "decoder.attention.sinks=false", "decoder.attention.position.table=per_stack"),
    ("sinks", "decoder.attention.softcap=1.5", "decoder.attention.kv_heads=1"),
    ("sinks", "decoder.attention.mask=prefix", "decoder.layers=2"),
    ("bert", "encoder.attention.position={kind: relative_buckets, buckets: 8, max_distance: 12}"),
    ("bert", "encoder.attention.position=alibi", "encoder.attention.sinks=true"),
    ("t5", "block.attention.position.table=per_layer"),
    ("t5", "block.attention.position={kind: disentangled, buckets: 4, max_distance: 10}"),
    ("deberta", "encoder.attention.window=3", "encoder.attention.kv_heads=2", "context_length=128"),
    ("deberta", "encoder.attention.bias=[q, v, o]", "encoder.attention.position.projections=own"),
    ("distances", "decoder.attention.position.terms=[c2p]", "decoder.attention.sinks=true", "decoder.layers=2"),
    ("distances", "decoder.attention.kv_heads=1", "decoder.attention.position.norm=l2norm", "decoder.layers=2"),
    ("moe", "decoder.ffn.top_k=1"),
    ("moe", "decoder.ffn.top_k=6"),
    ("moe", "decoder.ffn.router.score=sigmoid", "decoder.ffn.router.normalize=false"),
    ("moe", "decoder.layers=[{repeat: 2, weights: shared}]"),
    ("moe", "decoder.ffn.expert={kind: gated, width: 16, activation: gelu_tanh, bias: true, clamp: 0.5, up_shift: 1.0}"),
    ("moe", "decoder.attention.sinks=true", "decoder.attention.window=3"),
    ("experts", "decoder.layers=2", "decoder.ffn.router.groups=none"),
    ("experts", "decoder.ffn.router.groups={count: 8, keep: 5, score: max}"),
    ("experts", "decoder.ffn.latent={dim: 12}"),
    ("mla", "decoder.attention.position=none"),
    ("mla", "decoder.attention.position={kind: rope, theta: 50.0}", "decoder.attention.latent_norm=none"),
    ("mla", "decoder.attention.window={kind: chunk, size: 4}"),
    ("dynamic", "decoder.attention.position.dim=4"),
    ("llama", "decoder.attention.gate={per: head}", "decoder.attention.temperature={slope: 0.5, period: 2}"),
]  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS, ids=" ".join)
def test_every_variant_computes_what_pytorch_does(variant: tuple[str, ...]) -> None:
    e = exported(*variant)
    cuts = (5, 1, 3)
    feed, want = e.send(Case(3, cuts, True, 7))
    assert e.difference(e.whole(feed), want, feed) < CLOSE
    if "cached" in parts(e.model):
        want = reference(e.exact, feed, cuts)
        assert e.difference(e.stepped(feed, cuts)[0], want, feed) < CLOSE


@pytest.mark.parametrize("name", ["t5", "alibi", "buckets", "distances", "sinks", "moe", "mla"])
def test_far_from_the_start(name: str) -> None:
    e = exported(name, "context_length=128")
    feed, want = e.send(Case(2, (64, 1, 33), True, 40))
    assert e.difference(e.whole(feed), want, feed) < CLOSE
    assert e.difference(e.stepped(feed, (64, 1, 33))[0], want, feed) < CLOSE


# ----------------------------------------------------------------------------------- rotations that grow with a sequence


@pytest.mark.parametrize("name", GROWING)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("cuts", [(5,), (9,), (4, 4, 1), (1,) * 9])
def test_growing_rotations_are_pytorchs_whole_and_cached(name: str, padded: bool, cuts: tuple[int, ...]) -> None:
    """Past the original context of 6, and one row of the batch before the other where it is padded."""
    e = exported(name)
    feed, want = e.send(Case(2, cuts, padded, 1))
    assert e.difference(e.whole(feed), want, feed) < CLOSE
    assert e.difference(e.stepped(feed, cuts)[0], reference(e.exact, feed, cuts), feed) < CLOSE


@pytest.mark.parametrize("name", GROWING)
def test_cached_keys_keep_their_angles(name: str) -> None:
    """What is cached differs from the whole text past the original context, and nowhere before it."""
    e = exported(name)
    feed, want = e.send(Case(1, (1,) * 9, False, 1))
    apart = np.abs(e.stepped(feed, (1,) * 9)[0] - want).max((0, 2))
    assert apart[8] > 1e-2
    short = {n: v[:, :6] if v.ndim > 1 else v for n, v in feed.items()}
    assert e.difference(e.stepped(short, (1,) * 6)[0], e.whole(short), short) < CLOSE


@pytest.mark.parametrize("name", GROWING)
def test_growing_rotations_are_verified(name: str) -> None:
    e = exported(name)
    found = verified(e.folder, e.model, e.module)
    assert found.difference < found.tolerance / 10


# ----------------------------------------------------------------------------------------------------------- attention


def attentions(name: str, *overrides: str) -> list[str]:
    """How each attention of a cached graph is written."""
    graph = emit(tiny(name, *overrides), "cached", pytest.fail).graph
    said = [v.metadata_props.get("archspec.attention") for node in graph.all_nodes() for v in node.outputs]
    return [how for how in said if how]


def test_what_is_not_one_node_says_so() -> None:
    assert attentions("alibi") == ["fused"] * 2
    assert attentions("mla") == ["explicit: one key head for all", "fused"] * 2  # a step, and any other call
    assert attentions("sinks") == ["explicit: sinks"] * 2
    assert attentions("llama", "decoder.layers=[{attention: {sinks: true}}, {}]") == ["explicit: sinks", "fused"]


def test_a_stacks_bias_is_made_once() -> None:
    """One table, and its rows gathered once for all layers."""
    graph = emit(tiny("t5", "encoder.layers=6", "decoder.layers=6"), "cached", pytest.fail).graph
    tables = [n for n in graph.initializers if n.endswith("table.weight")]
    assert tables == ["decoder.layers.0.attention.table.weight"]
    assert len(graph.initializers[tables[0]].uses()) == 1


def test_a_latent_cache_is_what_its_slots_say() -> None:
    inputs = exported("mla").graph("cached").inputs
    assert {n: shape for n, shape in inputs.items() if n.startswith("past")} == {
        "past.0.latent": ["batch", 1, "past", 10],
        "past.0.rope_key": ["batch", 1, "past", 4],
        "past.1.latent": ["batch", 1, "past_5", 10],
        "past.1.rope_key": ["batch", 1, "past_5", 4],
    }


# ------------------------------------------------------------------------------------------------------------- experts


def one_expert(e: Exported, expert: int) -> Exported:
    """The same model, whose routers send every token to this expert first."""
    module = random_module(e.model)
    with torch.no_grad():
        for path, tensor in module.stored():
            if path.endswith("router.bias"):
                tensor.fill_(-50.0)[expert] = 50.0
    folder = e.folder.parent / f"expert_{expert}"
    export(e.model, stored(module), "x: 1\n", folder, verify=False, last_only=False)
    exact = type(module)(e.model).double()
    exact.load_state_dict(module.state_dict())
    return Exported(e.model, folder, module, exact.eval())


def test_every_expert_is_in_the_graph_and_may_be_idle() -> None:
    """All tokens to one expert: the others have no row."""
    e = exported("moe", "decoder.layers=1", "decoder.ffn.top_k=1", "decoder.ffn.router.bias=true")
    said = []
    for expert in range(6):
        forced = one_expert(e, expert)
        feed, want = forced.send(Case(2, (3,), False, 1))
        assert forced.difference(forced.whole(feed), want, feed) < CLOSE
        assert forced.difference(forced.stepped(feed, (2, 1))[0], want, feed) < CLOSE
        said.append(want)
    assert all(np.abs(a - b).max() > 1e-2 for i, a in enumerate(said) for b in said[:i])


def test_stacked_leaves_are_one_initializer_an_expert() -> None:
    model = tiny("experts")
    graph = emit(model, "logits", pytest.fail).graph
    for path, op, _ in walk(model):
        if isinstance(op, Moe):
            for leaf in ("up", "down"):
                for e in range(8):
                    widths = {op.expert.width, op.expert.hidden}
                    assert set(graph.initializers[f"{path}expert.{leaf}.weight.{e}"].shape or ()) == widths
    assert "decoder.layers.0.ffn.selection_bias" in graph.initializers


def test_a_graph_of_many_experts_loads_without_a_memory_plan() -> None:
    """The plan takes a time that is quadratic in the experts."""
    small, large = (exported("experts", "decoder.layers=2", f"decoder.ffn.experts={n}") for n in (8, 512))
    assert session_options(small.folder / "model.onnx").enable_mem_reuse
    assert not session_options(large.folder / "model.onnx").enable_mem_reuse
    feed, want = large.send(Case(1, (3,), False, 1))
    assert large.difference(large.whole(feed), want, feed) < CLOSE


def test_routers_are_precise_in_a_half_precision_graph() -> None:
    graph = emit(tiny("experts"), "logits", pytest.fail, precision=Precision(compute="fp16")).graph
    kinds = {name: value.dtype for name, value in graph.initializers.items()}
    assert kinds["decoder.layers.0.ffn.router.weight"] == ir.DataType.FLOAT
    assert kinds["decoder.layers.0.ffn.selection_bias"] == ir.DataType.FLOAT
    assert kinds["decoder.layers.0.ffn.expert.up.weight.3"] == ir.DataType.FLOAT16


def test_a_choice_that_rounding_decides_binds_nobody() -> None:
    """Two experts with one router row: the tie is seen, and later tokens of its text are not compared."""
    model = tiny("moe", "decoder.layers=[{}, {ffn: {kind: gated, width: 48, activation: silu}}]", "decoder.ffn.top_k=1")
    module = random_module(model)
    feed = request(model, Case(4, (9,), False, 1), 0)
    tokens = torch.ones(4, 9, dtype=torch.bool)
    with watched(module) as before:
        reference(module, feed)
    assert untouched(before, tokens, causal=True).all()
    with torch.no_grad():
        row = module.tensor("decoder.layers.0.ffn.router.weight")
        row[1] = row[0]
    with watched(module) as after:
        reference(module, feed)
    (clear,) = after
    assert 0 < clear.sum() < clear.numel()
    bound = untouched(after, tokens, causal=True)
    assert torch.equal(bound, clear.long().cummin(1).values.bool())
    assert torch.equal(untouched(after, tokens, causal=False), clear.all(1, keepdim=True) & tokens)
    assert untouched(after, clear, causal=True).equal(clear)  # what padding goes to touches nobody
