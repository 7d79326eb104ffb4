"""Steps between our tensors and a checkpoint's: laws, and layouts by hand."""

from __future__ import annotations

import numpy as np
import pytest
from checkpoints import model, numbered

from archspec.errors import WeightsError
from archspec.exporters.weights.maps import Family, plan, rule, under
from archspec.exporters.weights.names import LATENT, experts
from archspec.exporters.weights.transforms import (
    Array,
    Flatten,
    Fuse,
    FuseGroups,
    Interleave,
    SwapHalves,
    Transform,
    Transpose,
    Unstack,
    read_back,
    written,
)
from archspec.ops.attention import Attention
from archspec.ops.latent import LatentAttention
from archspec.ops.words import Mask, Scores

HEADS = Attention(width=8, heads=4, kv_heads=2, head_dim=4, v_head_dim=4, scores=Scores(Mask(), 1.0))
#: Chain, and the shapes of ours that it is for.
LAWS: list[tuple[tuple[Transform, ...], list[tuple[int, ...]]]] = [
    ((Fuse(),), [(16, 3), (8, 3), (8, 3)]),
    ((Fuse(), Transpose()), [(16, 3), (8, 3), (8, 3)]),
    ((Fuse(1),), [(5, 6, 3), (5, 6, 3)]),
    ((Fuse(1),), [(5, 6), (5, 6)]),
    ((Fuse(1), Transpose()), [(5, 6, 3), (5, 6, 3)]),
    ((Interleave(),), [(6, 3), (6, 3)]),
    ((Interleave(), Transpose()), [(6, 3), (6, 3)]),
    ((Interleave(1), Transpose()), [(5, 6, 3), (5, 6, 3)]),
    ((Interleave(1),), [(5, 6), (5, 6)]),
    ((FuseGroups(),), [(16, 3), (8, 3), (8, 3)]),
    ((FuseGroups(),), [(16,), (8,), (8,)]),
    ((FuseGroups("heads"), Transpose()), [(8, 3), (12, 3)]),
    ((FuseGroups(4),), [(16, 3), (16, 3), (16, 3)]),
    ((Unstack(),), [(5, 6, 3)]),
    ((Unstack(),), [(5, 6)]),
    ((Flatten(), Unstack()), [(4, 1, 6)]),
    ((Flatten(),), [(4, 1, 6)]),
    ((Transpose(), Flatten()), [(5, 3, 6)]),
    ((SwapHalves(),), [(16, 3)]),
    ((SwapHalves(), Fuse()), [(16,), (8,)]),
]


@pytest.mark.parametrize(("chain", "shapes"), LAWS, ids=str)
def test_reading_undoes_writing(chain: tuple[Transform, ...], shapes: list[tuple[int, ...]]) -> None:
    ours = [np.random.default_rng(0).standard_normal(shape) for shape in shapes]
    stored = written(chain, ours, HEADS)
    assert not all(len(stored) == len(ours) and np.array_equal(a, b) for a, b in zip(ours, stored, strict=False))
    back = read_back(chain, stored, shapes, HEADS)
    assert all(np.array_equal(a, b) for a, b in zip(ours, back, strict=True))


def rows(*counts: int) -> list[Array]:
    """q0 q1 ..., k0 ...: as 0 1 ..., 100 ..., 200 ..."""
    return [100 * i + np.arange(n) for i, n in enumerate(counts)]


def test_two_groups_of_heads_have_their_own_q_k_v() -> None:
    (whole,) = FuseGroups().write(rows(4, 2, 2), HEADS)
    assert whole.tolist() == [0, 1, 100, 200, 2, 3, 101, 201]


def test_one_group_is_all_q_then_k_then_v() -> None:
    one = Attention(width=8, heads=4, kv_heads=1, head_dim=4, v_head_dim=4, scores=Scores(Mask(), 1.0))
    (whole,) = FuseGroups().write(rows(4, 1, 1), one)
    assert whole.tolist() == [0, 1, 2, 3, 100, 200]


def test_the_order_in_a_group_is_that_of_the_paths() -> None:
    q, k, v = rows(4, 4, 4)
    (whole,) = FuseGroups(2).write([q, v, k], HEADS)
    assert whole.tolist() == [0, 1, 200, 201, 100, 101, 2, 3, 202, 203, 102, 103]


def test_gate_and_up_in_turn() -> None:
    (whole,) = Interleave().write(rows(3, 3), HEADS)
    assert whole.tolist() == [0, 100, 1, 101, 2, 102]


def test_halves_of_every_head_change_places() -> None:
    (swapped,) = SwapHalves().write([np.arange(8)], HEADS)
    assert swapped.tolist() == [2, 3, 0, 1, 6, 7, 4, 5]


def test_groups_of_what_has_none_are_an_error() -> None:
    latent = LatentAttention(8, 2, 4, 3, 2, 3, Scores(Mask(), 1.0))
    with pytest.raises(WeightsError, match="LatentAttention has no kv_heads"):
        FuseGroups().write(rows(2, 2), latent)


# ------------------------------------------------------------------------------------------------------------- rules

MOE = """
norm: rmsnorm
decoder:
  layers: 1
  attention: {heads: 2, position: rope}
  ffn:
    kind: moe
    experts: 3
    top_k: 1
    expert: {kind: gated, width: 5, activation: silu}
    router: {normalize: false}
head: {tied: true}
"""
LATENT_SPEC = """
norm: rmsnorm
decoder:
  layers: 1
  attention:
    {kind: mla, heads: 2, kv_lora_rank: 6, q_lora_rank: 4, qk_nope_head_dim: 3, qk_rope_head_dim: 2, v_head_dim: 5, position: rope}
  ffn: {kind: gated, width: 12, activation: silu}
head: {tied: true}
"""


def one_layer(*rules: object) -> Family:
    return Family("test", under("decoder.layers.{i}.", "l.{i}.", rules), {})  # type: ignore[arg-type]


def names(text: str, family: Family, there: set[str] | None = None) -> dict[str, tuple[int, ...]]:
    """Name -> shape, of the tensors that a map wants."""
    return {n: s for e in plan(family, model(text), there).entries for n, s in zip(e.theirs, e.shapes, strict=True)}


def test_a_field_of_theirs_alone_counts_our_first_axis() -> None:
    assert names(MOE, one_layer(rule("ffn.expert.up.*", "e.{e}.up.*", Unstack()))) == {
        f"l.0.e.{e}.up.weight": (5, 8) for e in range(3)
    }


def test_the_names_that_are_there_choose_between_rules() -> None:
    family = one_layer(*experts())
    stacked = {"l.0.mlp.gate.weight", "l.0.mlp.experts.gate_up_proj", "l.0.mlp.experts.down_proj"}
    found = names(MOE, family, stacked)
    assert set(found) == stacked
    assert found["l.0.mlp.experts.gate_up_proj"] == (3, 10, 8)
    assert found["l.0.mlp.experts.down_proj"] == (3, 8, 5)
    one_by_one = {f"l.0.mlp.experts.{e}.{x}_proj.weight" for e in range(3) for x in ("gate", "up", "down")}
    assert set(names(MOE, family)) == {"l.0.mlp.gate.weight", *one_by_one}


def test_latent_attention_in_the_matrices_of_deepseek() -> None:
    """kv_a is [latent; rotary key], kv_b is for each head [key without rotation; value]."""
    made = model(LATENT_SPEC)
    entries = {e.theirs[0]: e for e in plan(one_layer(*LATENT), made).entries}
    values = numbered(made)
    at = "decoder.layers.0.attention."
    down = entries["l.0.self_attn.kv_a_proj_with_mqa.weight"]
    (stored,) = written(down.chain, [values[p].numpy() for p in down.paths], down.op)
    assert np.array_equal(stored[:6], values[f"{at}kv_down.weight"])
    assert np.array_equal(stored[6:], values[f"{at}k_rope.weight"])
    up = entries["l.0.self_attn.kv_b_proj.weight"]
    (stored,) = written(up.chain, [values[p].numpy() for p in up.paths], up.op)
    assert np.array_equal(stored[8:11], values[f"{at}k_up.weight"][3:])
    assert np.array_equal(stored[11:], values[f"{at}v_up.weight"][5:])
