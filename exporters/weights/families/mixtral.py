"""Mixtral: Mistral with eight experts, of which a token takes two by a renormalised softmax."""

from __future__ import annotations

from ..blocks import Written, decoder, each, gated, grouped, moe, rmsnorm
from ..config import Ledger
from ..names import ATTENTION, PRE_NORMS, decoder_family, experts
from ..rotary import rope


def read(c: Ledger) -> Written:
    """MixtralConfig."""
    position = rope(c, theta=1e6)
    block = {
        "attention": {**grouped(c, kv_heads=8), "position": position, "window": c.stated("sliding_window", None)},
        "ffn": moe(c, gated(c), router={"normalize": True}),
    }
    return decoder(c, norm=rmsnorm(c, 1e-5), layers=each(c, lambda i: block), tied=False)


_EXPERTS = experts("block_sparse_moe.", gate="w1", up="w3", down="w2")
#: As modules of transformers name them.
_STACKED = experts("mlp.")

FAMILY = decoder_family("mixtral", read, (*PRE_NORMS, *ATTENTION, *_EXPERTS, *_STACKED))
