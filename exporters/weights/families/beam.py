"""Beam: residual sums that keep their size with depth; a biased gate on the heads; full layers without a rotation, whose
queries grow with their position."""

from __future__ import annotations

from math import sqrt

from ..blocks import (
    DEPTH,
    Block,
    Written,
    biased_router,
    decoder,
    each,
    expert_groups,
    gated,
    grouped,
    layer_types,
    moe,
    rmsnorm,
    sparse_layers,
)
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, GATED, QK_NORM, SANDWICH_NORMS, decoder_family, experts
from ..rotary import rope

_ROPE = {"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}, "full_attention": None}
_TEMPERATURE = {"growth": "power", "slope": 0.1, "period": 2048}


def read(c: Ledger) -> Written:
    """BeamConfig."""
    last, window = c.whole(DEPTH) - 1, c.stated("sliding_window", 512)
    types = layer_types(c, lambda i: "sliding_attention" if (i + 1) % 6 and i != last else "full_attention")
    sparse, router = sparse_layers(c, lambda i: i >= 3), biased_router(c, 2.5, expert_groups(c, "top2_sum", 8, 4))
    turning = c.get("rope_parameters", _ROPE)

    def block(i: int) -> Block:
        wide = c.whole("head_dim", 128)
        turns = turning.get(types[i]) is not None
        attention = {
            **grouped(c, kv_heads=8, head_dim=128),
            "bias": c.get("attention_bias", False),
            "qk_norm": {"over": "head"},
            "gate": {"activation": "sigmoid", "bias": "head"},
            "position": rope(c, types[i], head_dim=wide, default=_ROPE) if turns else "none",
            "temperature": None if turns else _TEMPERATURE,
            "window": window if types[i] == "sliding_attention" else None,
            "residual": _residual(2 * i + 2),
        }
        ffn = moe(c, gated(c, "moe_intermediate_size"), router) if sparse[i] else gated(c)
        return {"attention": attention, "ffn": {**ffn, "residual": _residual(2 * i + 3)}}

    c.ignore("intermediate_size", "moe_intermediate_size", "num_experts", "num_experts_per_tok")
    head = {"softcap": c.stated("final_logit_softcapping", 30.0)}
    return decoder(c, norm=rmsnorm(c), stack={"placement": "sandwich"}, layers=each(c, block), head=head, tied=False)


def _residual(n: int) -> Block:
    """The n-th of all sums, the embedding being the first: the mean of n things, times sqrt(n)."""
    return {"branch_scale": f"1/sqrt({n})", "skip_scale": sqrt((n - 1) / n)}


FAMILY = decoder_family(
    "beam",
    read,
    (
        *SANDWICH_NORMS,
        *ATTENTION,
        *QK_NORM,
        rule("attention.gate.weight", "self_attn.gate_proj.weight"),
        rule("attention.gate_bias", "self_attn.gate_bias"),
        *GATED,
        *experts(),
    ),
)
