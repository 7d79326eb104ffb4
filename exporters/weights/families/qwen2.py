"""Qwen 1.5 to 2.5: Llama with biases of q, k and v; windows in the upper layers where they are switched on."""

from __future__ import annotations

from ..blocks import Block, Written, biases, decoder, each, gated, grouped, layer_types, rmsnorm
from ..config import Ledger
from ..names import ATTENTION, GATED, PRE_NORMS, decoder_family
from ..rotary import rope


def windows(c: Ledger) -> list[int | None]:
    """The window of each layer, as Qwen 2 and 3 say it."""
    window = c.stated("sliding_window", 4096) if c.get("use_sliding_window", False) else None
    c.ignore("sliding_window")
    below = c.get("max_window_layers", 28)
    types = layer_types(c, lambda i: "sliding_attention" if window and i >= below else "full_attention")
    return [window if each_type == "sliding_attention" else None for each_type in types]


def read(c: Ledger) -> Written:
    """Qwen2Config."""
    window = windows(c)

    def block(i: int) -> Block:
        own = {"bias": biases(qkv=True), "position": rope(c), "window": window[i]}
        return {"attention": {**grouped(c), **own}, "ffn": gated(c)}

    return decoder(c, norm=rmsnorm(c), layers=each(c, block), tied=False)


FAMILY = decoder_family("qwen2", read, (*PRE_NORMS, *ATTENTION, *GATED))
