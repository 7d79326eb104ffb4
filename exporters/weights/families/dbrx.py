"""DBRX: clipped q, k and v, and experts stacked in one matrix each, the last of them turned."""

from __future__ import annotations

from archspec.errors import WeightsError

from ..blocks import HEADS, Written, activation, decoder, each
from ..config import Ledger
from ..entries import Block
from ..maps import rule
from ..names import decoder_family
from ..rotary import rope
from ..transforms import Flatten, Fuse, Transpose


def read(c: Ledger) -> Written:
    """DbrxConfig. Norms have eps 1e-5; attn_config's rope_theta is what was trained with, where transformers reads its own."""
    block = {"attention": _attention(c, c.part("attn_config")), "ffn": _ffn(c, c.part("ffn_config"))}
    norm = {"kind": "layernorm", "eps": 1e-5, "bias": False}
    return decoder(c, norm=norm, layers=each(c, lambda i: block), tied=False)


def _attention(c: Ledger, a: Ledger) -> Block:
    heads, kv, clip = c.whole(HEADS), a.whole("kv_n_heads", 1), a.get("clip_qkv")
    c.known(num_key_value_heads=kv)
    position = rope(c, theta=float(a.get("rope_theta", 10000.0)))
    if position["theta"] != a.get("rope_theta", position["theta"]):
        told = f"{position['theta']:g} and in attn_config {a['rope_theta']:g}"
        raise WeightsError(f"the config says one thing twice and differently: rope_theta is {told}.")
    return {
        "heads": heads,
        "kv_heads": kv if kv != heads else None,
        "clip": float(clip) if clip is not None else None,
        "position": position,
    }


def _ffn(c: Ledger, f: Ledger) -> Block:
    """The chosen weights over their p-norm, which is their sum where p is 1; null, and not absence, says that they stay."""
    f.known(hidden_size=c.whole("d_model|hidden_size"))
    f.ignore("moe_loss_weight")
    power = f.get("moe_normalize_expert_weights", None if "moe_normalize_expert_weights" in list(f) else 1)
    if power not in (None, 1):
        raise WeightsError(f"the config has moe_normalize_expert_weights: {power}, which the language does not have.")
    act = activation(f.part("ffn_act_fn").get("name", "silu"))
    return {
        "kind": "moe",
        "experts": f.whole("moe_num_experts", 4),
        "top_k": f.whole("moe_top_k", 1),
        "expert": {"kind": "gated", "width": f.whole("ffn_hidden_size", 3584), "activation": act},
        "router": {"normalize": power == 1},
    }


FAMILY = decoder_family(
    "dbrx",
    read,
    (
        rule("attention_input_norm.weight", "norm_attn_norm.norm_1.weight"),
        rule("attention.q.weight attention.k.weight attention.v.weight", "norm_attn_norm.attn.Wqkv.weight", Fuse()),
        rule("attention.o.weight", "norm_attn_norm.attn.out_proj.weight"),
        rule("ffn_input_norm.weight", "norm_attn_norm.norm_2.weight"),
        rule("ffn.router.weight", "ffn.router.layer.weight"),
        rule("ffn.expert.gate.weight", "ffn.experts.mlp.w1", Flatten()),
        rule("ffn.expert.up.weight", "ffn.experts.mlp.v1", Flatten()),
        rule("ffn.expert.down.weight", "ffn.experts.mlp.w2", Transpose(), Flatten()),
    ),
    base="transformer.",
    tokens="wte",
    layers="blocks.{i}.",
    final="norm_f",
)
