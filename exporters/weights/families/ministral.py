"""Ministral: Mistral with windows by layer type."""

from __future__ import annotations

from ..blocks import Written, decoder, each, gated, grouped, layer_types, rmsnorm
from ..config import Ledger
from ..names import ATTENTION, GATED, PRE_NORMS, decoder_family
from ..rotary import rope


def read(c: Ledger) -> Written:
    """MinistralConfig."""
    window = c.stated("sliding_window", 4096)
    types = layer_types(c, lambda i: "sliding_attention" if window else "full_attention")

    def block(i: int) -> dict[str, object]:
        own = window if types[i] == "sliding_attention" else None
        return {"attention": {**grouped(c, kv_heads=8), "position": rope(c), "window": own}, "ffn": gated(c)}

    return decoder(c, norm=rmsnorm(c), layers=each(c, block), tied=False)


FAMILY = decoder_family("ministral", read, (*PRE_NORMS, *ATTENTION, *GATED))
