"""Mistral: Llama with the same window in every layer, or none."""

from __future__ import annotations

from ..blocks import Written, decoder, each, gated, grouped, rmsnorm
from ..config import Ledger
from ..names import ATTENTION, GATED, PRE_NORMS, decoder_family
from ..rotary import rope


def read(c: Ledger) -> Written:
    """MistralConfig."""
    block = {
        "attention": {**grouped(c, kv_heads=8), "position": rope(c), "window": c.stated("sliding_window", 4096)},
        "ffn": gated(c),
    }
    return decoder(c, norm=rmsnorm(c), layers=each(c, lambda i: block), tied=False)


FAMILY = decoder_family("mistral", read, (*PRE_NORMS, *ATTENTION, *GATED))
