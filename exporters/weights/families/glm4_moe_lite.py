"""GLM-4.7 Flash: DeepSeek-V3 with its dense layers in a list."""

from __future__ import annotations

from ..blocks import (
    Block,
    Written,
    biased_router,
    decoder,
    dense_or_sparse,
    each,
    expert_groups,
    rmsnorm,
    sparse_layers,
)
from ..config import Ledger
from ..names import GATED, LATENT, PRE_NORMS, decoder_family, experts, shared
from ..rotary import latent


def read(c: Ledger) -> Written:
    """Glm4MoeLiteConfig."""
    c.known(attention_bias=False)
    c.ignore("num_nextn_predict_layers", "num_mtp_layers")
    attention = latent(c, interleaved=c.get("rope_interleave", True))
    sparse, router = sparse_layers(c, lambda i: i > 0), biased_router(c, 1.8, expert_groups(c, "top2_sum"))

    def block(i: int) -> Block:
        return {"attention": attention, "ffn": dense_or_sparse(c, sparse[i], router)}

    return decoder(c, norm=rmsnorm(c, 1e-5), layers=each(c, block), tied=False)


FAMILY = decoder_family("glm4_moe_lite", read, (*PRE_NORMS, *LATENT, *GATED, *experts(), *shared()), beyond=True)
