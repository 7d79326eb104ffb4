"""ERNIE 4.5, the dense ones: Llama turned in adjacent pairs, one switch for all biases."""

from __future__ import annotations

from ..blocks import Written, decoder, each, gated, grouped, rmsnorm
from ..config import Ledger
from ..names import ATTENTION, GATED, PRE_NORMS, decoder_family
from ..rotary import rope


def read(c: Ledger) -> Written:
    """Ernie4_5Config."""
    c.known(use_rmsnorm=True)
    bias = c.get("use_bias", False)
    position = rope(c, theta=500000.0, interleaved=True, head_dim=c.whole("head_dim", 128))
    block = {
        "attention": {**grouped(c, kv_heads=2, head_dim=128), "bias": bias, "position": position},
        "ffn": gated(c, bias=bias),
    }
    return decoder(c, norm=rmsnorm(c, 1e-5), layers=each(c, lambda i: block), tied=True)


FAMILY = decoder_family("ernie4_5", read, (*PRE_NORMS, *ATTENTION, *GATED))
