"""Mellum: Qwen 3 with experts, and a rotation for each type of layer."""

from __future__ import annotations

from ..blocks import Block, Written, decoder, each, gated, grouped, layer_types, moe, rmsnorm, sparse_layers
from ..config import Ledger
from ..names import ATTENTION, GATED, PRE_NORMS, QK_NORM, decoder_family, experts
from ..rotary import rope

_ROPE = {
    "full_attention": {"rope_type": "default", "rope_theta": 500000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
}


def read(c: Ledger) -> Written:
    """MellumConfig."""
    c.ignore("num_nextn_predict_layers", "num_mtp_layers", "mtp_layer_types", "mtp_mlp_layer_types")
    window, types = c.stated("sliding_window", 1024), layer_types(c)
    sparse, router = sparse_layers(c, lambda i: True), {"normalize": c.get("norm_topk_prob", True)}

    def block(i: int) -> Block:
        attention = {
            **grouped(c, kv_heads=4, head_dim=128),
            "bias": c.get("attention_bias", False),
            "qk_norm": {"over": "head"},
            "position": rope(c, types[i], partial=1.0, head_dim=c.whole("head_dim", 128), default=_ROPE),
            "window": window if types[i] == "sliding_attention" else None,
        }
        ffn = moe(c, gated(c, "moe_intermediate_size"), router) if sparse[i] else gated(c)
        return {"attention": attention, "ffn": ffn}

    c.ignore("sliding_window", "intermediate_size", "moe_intermediate_size")
    return decoder(c, norm=rmsnorm(c), layers=each(c, block), tied=False)


FAMILY = decoder_family("mellum", read, (*PRE_NORMS, *ATTENTION, *QK_NORM, *GATED, *experts()), aside=("mtp.{path}",))
