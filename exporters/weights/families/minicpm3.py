"""MiniCPM 3: latent attention, and multipliers of embedding, branches and logits (muP)."""

from __future__ import annotations

from math import sqrt

from ..blocks import DEPTH, HEADS, WIDTH, Written, decoder, each, gated, rmsnorm
from ..config import Ledger
from ..names import GATED, LATENT, PRE_NORMS, decoder_family
from ..rotary import latent


def read(c: Ledger) -> Written:
    """MiniCPM3Config."""
    c.known(attention_bias=False)
    attention = latent(c, interleaved=False, v_head_dim=c.whole(WIDTH) // c.whole(HEADS))
    attention["q_lora_rank"] = c.stated("q_lora_rank", 768)
    depth, base = c.stated("scale_depth", 1.4), c.stated("dim_model_base", 256)
    block = {
        "residual": {"branch_scale": f"{depth}/sqrt(layers)"} if depth not in (None, sqrt(c.whole(DEPTH))) else None,
        "attention": attention,
        "ffn": gated(c, bias=c.get("mlp_bias", False)),
    }
    return decoder(
        c,
        norm=rmsnorm(c, 1e-5),
        embedding={"scale": float(c.get("scale_emb", 12))},
        layers=each(c, lambda i: block),
        head={"scale": f"{base}/d_model" if base not in (None, c.whole(WIDTH)) else None},
        tied=True,
    )


FAMILY = decoder_family("minicpm3", read, (*PRE_NORMS, *LATENT, *GATED))
