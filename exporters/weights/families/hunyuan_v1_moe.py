"""Hunyuan 1 with experts in every layer, beside one of their size that every token takes; norms of q and k after the rotation."""

from __future__ import annotations

from archspec.errors import WeightsError

from ..blocks import Block, Written, decoder, each, gated, grouped, moe, rmsnorm
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, PRE_NORMS, decoder_family, experts, shared
from ..rotary import rope


def read(c: Ledger) -> Written:
    """HunYuanMoEV1Config."""
    c.ignore("eod_token_id")
    attention = {
        **grouped(c),
        "bias": c.get("attention_bias", False),
        "qk_norm": {"over": "head", "order": "after_rope"},
        "position": rope(c),
    }
    chosen = c.get("moe_topk|num_experts_per_tok", 1)

    def block(i: int) -> Block:
        expert = gated(c)
        ffn = moe(c, expert, {"normalize": True}, shared=expert["width"], top_k=_of_layer(chosen, i))
        return {"attention": attention, "ffn": ffn}

    return decoder(c, norm=rmsnorm(c, 1e-5), layers=each(c, block), tied=False)


def _of_layer(chosen: object, i: int) -> int:
    """How many experts a token takes: one number, or one a layer."""
    k = chosen[i] if isinstance(chosen, list) and i < len(chosen) else chosen
    if not isinstance(k, int):
        raise WeightsError(f"the config has moe_topk: {chosen}, where a whole number is meant, or one a layer.")
    return k


FAMILY = decoder_family(
    "hunyuan_v1_moe",
    read,
    (
        *PRE_NORMS,
        *ATTENTION,
        rule("attention.q_norm.*", "self_attn.query_layernorm.*"),
        rule("attention.k_norm.*", "self_attn.key_layernorm.*"),
        rule("ffn.router.*", "mlp.gate.wg.*"),
        *experts(),
        *shared("mlp.shared_mlp."),
    ),
)
