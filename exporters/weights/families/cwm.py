"""CWM: Llama with a full layer and three windows in turn."""

from __future__ import annotations

from ..blocks import Block, Written, decoder, each, gated, grouped, layer_types, rmsnorm
from ..config import Ledger
from ..names import ATTENTION, GATED, PRE_NORMS, decoder_family
from ..rotary import rope

_ROPE = {
    "rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip


def read(c: Ledger) -> Written:
    """CwmConfig."""
    window = c.stated("sliding_window", 8192)
    types = layer_types(c, lambda i: "sliding_attention" if i % 4 else "full_attention")

    def block(i: int) -> Block:
        own = {
            "position": rope(c, theta=1e6, head_dim=c.whole("head_dim", 128), default=_ROPE),
            "window": window if types[i] == "sliding_attention" else None,
        }
        attention = {**grouped(c, kv_heads=8, head_dim=128), **own}
        return {"attention": attention, "ffn": gated(c, bias=c.get("mlp_bias", False))}

    return decoder(c, norm=rmsnorm(c, 1e-5), layers=each(c, block), tied=False)


FAMILY = decoder_family("cwm", read, (*PRE_NORMS, *ATTENTION, *GATED))
