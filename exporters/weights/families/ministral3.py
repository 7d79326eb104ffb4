"""Ministral 3: Llama whose queries grow with their position past the context before yarn."""

from __future__ import annotations

from ..blocks import Written, decoder, each, gated, grouped, rmsnorm
from ..config import Ledger
from ..names import ATTENTION, GATED, PRE_NORMS, decoder_family
from ..rotary import original_context, rope, rope_parameters

#: Its rope_parameters, where the config has none.
_ROPE = {
    "rope_type": "yarn",
    "rope_theta": 1000000.0,
    "factor": 16.0,
    "original_max_position_embeddings": 16384,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}


def read(c: Ledger) -> Written:
    """Ministral3Config."""
    p = rope_parameters(c, default=_ROPE)
    p.ignore("max_position_embeddings")
    slope, period = p["llama_4_scaling_beta"], original_context(c, p)
    attention = {
        **grouped(c, kv_heads=8, head_dim=128),
        "position": rope(c, head_dim=c.whole("head_dim", 128), default=_ROPE),
        "window": c.get("sliding_window"),
        "temperature": {"slope": float(slope), "period": period, "offset": 0} if slope else None,
    }
    block = {"attention": attention, "ffn": gated(c)}
    return decoder(c, norm=rmsnorm(c, 1e-5), layers=each(c, lambda i: block), tied=False)


FAMILY = decoder_family("ministral3", read, (*PRE_NORMS, *ATTENTION, *GATED))
