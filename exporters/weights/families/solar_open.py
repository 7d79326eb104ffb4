"""Solar Open: grouped heads, and in every layer experts as DeepSeek-V3 has them."""

from __future__ import annotations

from ..blocks import Written, biased_router, biases, decoder, each, expert_groups, gated, grouped, moe, rmsnorm
from ..config import Ledger
from ..names import ATTENTION, PRE_NORMS, decoder_family, experts, shared
from ..rotary import rope


def read(c: Ledger) -> Written:
    """SolarOpenConfig."""
    c.known(use_qk_norm=False, first_k_dense_replace=0)
    c.ignore("intermediate_size")
    expert = gated(c, "moe_intermediate_size")
    router = biased_router(c, 1.0, expert_groups(c, "top2_sum"))
    block = {
        "attention": {
            **grouped(c, kv_heads=8, head_dim=128),
            "bias": biases(qkv=c.get("attention_bias", False)),
            "position": rope(c, theta=1e6, head_dim=c.whole("head_dim", 128)),
        },
        "ffn": moe(c, expert, router, shared=c.get("n_shared_experts", 1) * expert["width"]),
    }
    return decoder(c, norm=rmsnorm(c, 1e-5), layers=each(c, lambda i: block), tied=False)


FAMILY = decoder_family("solar_open", read, (*PRE_NORMS, *ATTENTION, *experts(), *shared()))
