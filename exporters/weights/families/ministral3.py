"""Ministral 3: Llama whose queries grow with their position past the context before yarn."""

from __future__ import annotations

from ..blocks import Written, decoder, each, gated, grouped, rmsnorm
from ..config import Ledger
from ..names import ATTENTION, GATED, PRE_NORMS, decoder_family
from ..rotary import original_context, rope, rope_parameters


def read(c: Ledger) -> Written:
    """Ministral3Config."""
    p = rope_parameters(c)
    p.ignore("max_position_embeddings")
    slope, period = p["llama_4_scaling_beta"], original_context(c, p)
    attention = {
        **grouped(c, kv_heads=8, head_dim=128),
        "position": rope(c, head_dim=c.whole("head_dim", 128)),
        "window": c.get("sliding_window"),
        "temperature": {"slope": float(slope), "period": period, "offset": 0} if slope else None,
    }
    block = {"attention": attention, "ffn": gated(c)}
    return decoder(c, norm=rmsnorm(c, 1e-5), layers=each(c, lambda i: block), tied=False)


FAMILY = decoder_family("ministral3", read, (*PRE_NORMS, *ATTENTION, *GATED))
