"""Solar Open: grouped heads, and in every layer experts as DeepSeek-V3 has them."""

from __future__ import annotations

from ..blocks import Written, biased_router, biases, decoder, dense_or_sparse, each, expert_groups, grouped, rmsnorm
from ..config import Ledger
from ..names import ATTENTION, PRE_NORMS, decoder_family, experts, shared
from ..rotary import rope


def read(c: Ledger) -> Written:
    """SolarOpenConfig."""
    c.known(use_qk_norm=False, first_k_dense_replace=0)
    router = biased_router(c, 1.0, expert_groups(c, "top2_sum"))
    block = {
        "attention": {
            **grouped(c, kv_heads=8, head_dim=128),
            "bias": biases(qkv=c.get("attention_bias", False)),
            "position": rope(c, theta=1e6, partial=1.0, head_dim=c.whole("head_dim", 128)),
        },
        "ffn": dense_or_sparse(c, True, router),
    }
    return decoder(c, norm=rmsnorm(c, 1e-5), layers=each(c, lambda i: block), tied=False)


FAMILY = decoder_family("solar_open", read, (*PRE_NORMS, *ATTENTION, *experts(), *shared()))
