"""Gemma 1: norms that multiply by 1 + w, a scaled embedding, a gated GELU by tanh."""

from __future__ import annotations

from math import sqrt

import numpy as np

from ..blocks import WIDTH, Block, Written, decoder, each, gated, grouped, rmsnorm
from ..config import Ledger
from ..names import ATTENTION, GATED, PRE_NORMS, decoder_family
from ..rotary import rope


def scaled(c: Ledger) -> Block:
    """The embedding, times sqrt(d_model) as transformers keeps it: a constant in float32."""
    root = sqrt(c.whole(WIDTH))
    kept = float(np.float32(root))
    return {"scale": "sqrt(d_model)" if kept == root else kept}


def read(c: Ledger) -> Written:
    """GemmaConfig. Its `gelu` means the approximation by tanh."""
    c.known(use_bidirectional_attention=False)
    c.ignore("hidden_activation")
    ffn = gated(c, act="gelu_pytorch_tanh", key="hidden_act")
    attention = grouped(c, kv_heads=16, head_dim=256)
    block = {
        "attention": {
            **attention,
            "bias": c.get("attention_bias", False),
            "position": rope(c, head_dim=c.whole("head_dim", 256)),
        },
        "ffn": {**ffn, "activation": "gelu_tanh" if ffn["activation"] == "gelu" else ffn["activation"]},
    }
    norm = rmsnorm(c, weight="1+w")
    return decoder(c, norm=norm, embedding=scaled(c), layers=each(c, lambda i: block), tied=True)


FAMILY = decoder_family("gemma", read, (*PRE_NORMS, *ATTENTION, *GATED))
