"""Muse Glimmer, its text part: norms on both sides of each sublayer, weightless ones of q and k, a gate on the merged heads."""

from __future__ import annotations

from archspec.errors import WeightsError

from ..blocks import Block, Written, decoder, each, gated, grouped, layer_types, rmsnorm
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, GATED, SANDWICH_NORMS, decoder_family
from ..rotary import rope


def attention(c: Ledger, kv_heads: int, head_dim: int, factor: float, theta: float) -> list[Block]:
    """The attention of each layer; factor, theta: the family's defaults of qk_scale_factor and of the rotation."""
    depth, scale = c.whole("num_hidden_layers"), c.get("qk_scale_factor", factor)
    types = layer_types(c, lambda i: "sliding_attention" if (depth - 1 - i) % 4 else "full_attention")
    position = rope(c, head_dim=c.whole("head_dim", head_dim), theta=theta)
    turns = c.get("layer_rope_theta") or [(depth - 1 - i) % 4 and position["theta"] for i in range(depth)]
    if len(turns) != depth or not set(turns) <= {0, position["theta"]}:
        raise WeightsError(
            f"the config has layer_rope_theta: {turns}, where {depth} of 0, {position['theta']:g} are meant."
        )
    window = c.stated("sliding_window", 2048)
    shared = {
        **grouped(c, kv_heads=kv_heads, head_dim=head_dim),
        "bias": c.get("attention_bias", False),
        "scale": f"{scale!r}/sqrt(head_dim)",
        "qk_norm": {"over": "head", "norm": {"weight": "none"}},
        "gate": {"activation": "sigmoid"},
    }
    return [
        {**shared, "position": position if turns[i] else "none", "window": window if t == "sliding_attention" else None}
        for i, t in enumerate(types)
    ]


def head(c: Ledger, multiplier: float) -> Block:
    """What a head would do to the logits."""
    return {"scale": c.get("output_multiplier", multiplier), "softcap": c.stated("final_logit_softcapping", 20.0)}


def read(c: Ledger) -> Written:
    """MuseGlimmerTextConfig."""
    mixed = attention(c, 2, 128, 3.87, 10000.0)
    after = {"branch_norm": {"eps": float(c.get("post_norm_eps", 1e-8))}}
    return decoder(
        c,
        norm=rmsnorm(c, 1e-5, "1+w"),
        embedding={"norm": {"weight": "none"}},
        stack={"placement": "sandwich", "final_norm": {"weight": "w"}},
        layers=each(c, lambda i: {"attention": {**mixed[i], **after}, "ffn": {**gated(c), **after}}),
        tied=False,
        head=head(c, 0.19611613513818404),
    )


FAMILY = decoder_family(
    "muse_glimmer",
    read,
    (*SANDWICH_NORMS, *ATTENTION, rule("attention.gate.weight", "self_attn.gate_proj.weight"), *GATED),
    types=("muse_glimmer_text",),
)
