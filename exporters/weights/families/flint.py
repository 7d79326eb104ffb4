"""Flint: sinks; windows with a rotation, full layers without; experts by renormalised sigmoid."""

from __future__ import annotations

from ..blocks import DEPTH, Block, Written, decoder, each, gated, grouped, layer_types, moe, rmsnorm
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, GATED, PRE_NORMS, QK_NORM, decoder_family, experts, shared
from ..rotary import rope


def read(c: Ledger) -> Written:
    """FlintConfig."""
    last = c.whole(DEPTH) - 1
    types = layer_types(c, lambda i: "full_attention" if i < 2 or i % 4 == 1 or i == last else "sliding_attention")
    window, position = c.whole("sliding_window", 513), rope(c, head_dim=c.whole("head_dim", 128))
    dense, step = c.get("mlp_only_layers", [0, 1]), c.get("decoder_sparse_step", 1)
    router = {"score": "sigmoid", "normalize": c.get("norm_topk_prob", True)}

    def block(i: int) -> Block:
        slides = types[i] == "sliding_attention"
        attention = {
            **grouped(c, kv_heads=4, head_dim=128),
            "bias": c.get("attention_bias", False),
            "qk_norm": {"over": "head"},
            "sinks": True,
            "position": position if slides else "none",
            "window": window if slides else None,
        }
        if i in dense or (i + 1) % step:
            return {"attention": attention, "ffn": gated(c)}
        width = c.whole("shared_expert_intermediate_size", 1024)
        return {"attention": attention, "ffn": moe(c, gated(c, "moe_intermediate_size"), router, shared=width)}

    c.ignore("intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size")
    return decoder(c, norm=rmsnorm(c), layers=each(c, block), tied=False)


FAMILY = decoder_family(
    "flint",
    read,
    (
        *PRE_NORMS,
        *ATTENTION,
        *QK_NORM,
        rule("attention.sinks", "self_attn.softmax_offset"),
        rule("attention.sinks", "self_attn.sinks"),
        *GATED,
        *experts(),
        *shared("mlp.shared_expert."),
    ),
)
