"""GLM-4.5: grouped heads of which half turns, norms of q and k where it says so; experts as DeepSeek-V3 has them."""

from __future__ import annotations

from ..blocks import (
    Block,
    Written,
    biased_router,
    biases,
    decoder,
    dense_or_sparse,
    each,
    expert_groups,
    grouped,
    rmsnorm,
)
from ..config import Ledger
from ..names import ATTENTION, GATED, PRE_NORMS, QK_NORM, decoder_family, experts, shared
from ..rotary import rope


def read(c: Ledger) -> Written:
    """Glm4MoeConfig."""
    c.ignore("num_nextn_predict_layers", "num_mtp_layers")
    attention = {
        **grouped(c, kv_heads=8),
        "bias": biases(qkv=c.get("attention_bias", False)),
        "qk_norm": {"over": "head"} if c.get("use_qk_norm", False) else None,
        "position": rope(c, partial=0.5),
    }
    dense, router = c.get("first_k_dense_replace", 1), biased_router(c, 1.0, expert_groups(c, "top2_sum"))

    def block(i: int) -> Block:
        return {"attention": attention, "ffn": dense_or_sparse(c, i >= dense, router)}

    return decoder(c, norm=rmsnorm(c, 1e-5), layers=each(c, block), tied=False)


FAMILY = decoder_family(
    "glm4_moe", read, (*PRE_NORMS, *ATTENTION, *QK_NORM, *GATED, *experts(), *shared()), beyond=True
)
