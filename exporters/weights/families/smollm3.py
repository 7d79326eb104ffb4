"""SmolLM3: Llama with no position in every fourth layer. In `no_rope_layers`, 1 means that there is one."""

from __future__ import annotations

from ..blocks import DEPTH, Block, Written, decoder, each, gated, grouped, layer_types, rmsnorm
from ..config import Ledger
from ..names import ATTENTION, GATED, PRE_NORMS, decoder_family
from ..rotary import rope


def read(c: Ledger) -> Written:
    """SmolLM3Config."""
    interval = c.get("no_rope_layer_interval", 4)
    turns = c.get("no_rope_layers") or [int((i + 1) % interval != 0) for i in range(c.whole(DEPTH))]
    window = c.get("sliding_window") if c.get("use_sliding_window", False) else None
    c.ignore("sliding_window")
    types = layer_types(c, lambda i: "sliding_attention" if window and not turns[i] else "full_attention")

    def block(i: int) -> Block:
        own = {
            "bias": c.get("attention_bias", False),
            "position": rope(c, theta=2e6) if turns[i] else "none",
            "window": window if types[i] == "sliding_attention" else None,
        }
        return {"attention": {**grouped(c, kv_heads=4), **own}, "ffn": gated(c, bias=c.get("mlp_bias", False))}

    return decoder(c, norm=rmsnorm(c), layers=each(c, block), tied=True)


FAMILY = decoder_family("smollm3", read, (*PRE_NORMS, *ATTENTION, *GATED))
