"""Qwen 3: a norm of each head of q and k."""

from __future__ import annotations

from ..blocks import Block, Written, decoder, each, gated, grouped, rmsnorm
from ..config import Ledger
from ..names import ATTENTION, GATED, PRE_NORMS, QK_NORM, decoder_family
from ..rotary import rope
from .qwen2 import windows


def read(c: Ledger) -> Written:
    """Qwen3Config."""
    window, head_dim = windows(c), c.whole("head_dim", 128)

    def block(i: int) -> Block:
        own = {
            "bias": c.get("attention_bias", False),
            "qk_norm": {"over": "head"},
            "position": rope(c, head_dim=head_dim),
            "window": window[i],
        }
        return {"attention": {**grouped(c, head_dim=head_dim), **own}, "ffn": gated(c)}

    return decoder(c, norm=rmsnorm(c), layers=each(c, block), tied=False)


FAMILY = decoder_family("qwen3", read, (*PRE_NORMS, *ATTENTION, *QK_NORM, *GATED))
