"""OLMoE: experts in every layer, a norm over the whole of q and of k."""

from __future__ import annotations

from ..blocks import Written, decoder, each, gated, grouped, moe, rmsnorm
from ..config import Ledger
from ..names import ATTENTION, PRE_NORMS, QK_NORM, decoder_family, experts
from ..rotary import rope


def read(c: Ledger) -> Written:
    """OlmoeConfig."""
    c.known(sliding_window=None)
    clip = c.get("clip_qkv")
    block = {
        "attention": {
            **grouped(c),
            "bias": c.get("attention_bias", False),
            "clip": float(clip) if clip is not None else None,
            "qk_norm": {"over": "vector"},
            "position": rope(c),
        },
        "ffn": moe(c, gated(c), {"normalize": c.get("norm_topk_prob", False)}),
    }
    return decoder(c, norm=rmsnorm(c, 1e-5), layers=each(c, lambda i: block), tied=False)


FAMILY = decoder_family("olmoe", read, (*PRE_NORMS, *ATTENTION, *QK_NORM, *experts()))
