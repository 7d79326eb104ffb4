"""Jais 2: LayerNorms and biases, a plain feed-forward network of squared ReLU."""

from __future__ import annotations

from ..blocks import Written, decoder, each, grouped, layernorm, mlp
from ..config import Ledger
from ..names import ATTENTION, GATED, PRE_NORMS, decoder_family
from ..rotary import rope


def read(c: Ledger) -> Written:
    """Jais2Config."""
    block = {
        "attention": {**grouped(c), "bias": c.get("attention_bias", True), "position": rope(c)},
        "ffn": mlp(c, act="relu2", bias=c.get("mlp_bias", True)),
    }
    return decoder(c, norm=layernorm(c), layers=each(c, lambda i: block), tied=False)


FAMILY = decoder_family("jais2", read, (*PRE_NORMS, *ATTENTION, *GATED[1:]))
