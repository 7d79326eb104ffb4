"""Mistral 4: latent attention whose queries grow with their position; experts by renormalised softmax, from the best groups."""

from __future__ import annotations

from ..blocks import Block, Written, decoder, dense_or_sparse, each, expert_groups, rmsnorm
from ..config import Ledger
from ..names import GATED, LATENT, PRE_NORMS, decoder_family, experts, shared
from ..rotary import latent, original_context, rope_parameters

_ROPE = {
    "type": "yarn", "factor": 128.0, "original_max_position_embeddings": 8192, "beta_fast": 32.0, "beta_slow": 1.0,
    "mscale_all_dim": 1.0, "mscale": 1.0, "llama_4_scaling_beta": 0.1,
}  # fmt: skip


def read(c: Ledger) -> Written:
    """Mistral4Config."""
    c.known(attention_bias=False)
    attention = {
        **latent(c, interleaved=c.get("rope_interleave", True), default=_ROPE),
        "temperature": _temperature(c),
    }
    dense = c.get("first_k_dense_replace", 0)
    router = {
        "groups": expert_groups(c, "top2_sum"),
        "normalize": c.get("norm_topk_prob", True),
        "scale": float(c.get("routed_scaling_factor", 1.0)),
    }

    def block(i: int) -> Block:
        return {"attention": attention, "ffn": dense_or_sparse(c, i >= dense, router)}

    return decoder(c, norm=rmsnorm(c), layers=each(c, block), tied=False)


def _temperature(c: Ledger) -> Block | None:
    p = rope_parameters(c, default=_ROPE)
    p.ignore("max_position_embeddings")
    beta = p.get("llama_4_scaling_beta")
    return {"slope": float(beta), "period": original_context(c, p), "offset": 0} if beta else None


FAMILY = decoder_family("mistral4", read, (*PRE_NORMS, *LATENT, *GATED, *experts(), *shared()))
