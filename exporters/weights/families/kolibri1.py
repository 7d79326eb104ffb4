"""Kolibri: norms on both sides of each sublayer; windows turn, full layers do not; the bias that selects is on the logits."""

from __future__ import annotations

from ..blocks import Block, Written, decoder, each, every, gated, grouped, layer_types, moe, rmsnorm
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, QK_NORM, decoder_family, experts, shared
from ..rotary import rope


def read(c: Ledger) -> Written:
    """Kolibri1Config."""
    window, types = c.stated("sliding_window", 513), layer_types(c, every(5))
    position = rope(c, head_dim=c.whole("head_dim", 128))
    router = {"score": "sigmoid", "selection_bias": "logit", "normalize": c.get("norm_topk_prob", False)}
    shared_width = c.whole("shared_expert_intermediate_size", 512)
    ffn = moe(c, gated(c, "moe_intermediate_size"), router, shared=shared_width)

    def block(i: int) -> Block:
        seen = window if types[i] == "sliding_attention" else None
        attention = {
            **grouped(c, kv_heads=4, head_dim=128),
            "qk_norm": {"over": "head"},
            "position": position if seen or window is None else "none",
            "window": seen,
        }
        return {"attention": attention, "ffn": ffn}

    return decoder(c, norm=rmsnorm(c), stack={"placement": "sandwich"}, layers=each(c, block), tied=False)


#: As the published checkpoints name them, and as modules of transformers do.
_NORMS = (
    rule("attention_input_norm.*", "input_layernorm.*"),
    rule("attention_branch_norm.*", "post_attn_norm.*"),
    rule("attention_branch_norm.*", "post_self_attn_layernorm.*"),
    rule("ffn_input_norm.*", "post_attention_layernorm.*"),
    rule("ffn_branch_norm.*", "post_ffn_norm.*"),
    rule("ffn_branch_norm.*", "post_mlp_layernorm.*"),
)
FAMILY = decoder_family(
    "kolibri1",
    read,
    (
        *_NORMS,
        *ATTENTION,
        *QK_NORM,
        rule("ffn.selection_bias", "moe.router.expert_bias"),
        *experts(),
        *shared(),
    ),
)
