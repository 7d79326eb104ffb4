"""HyperCLOVA X: Llama with multipliers of embedding, scores, branches and logits, and norms on the branches' outputs."""

from __future__ import annotations

from ..blocks import Written, channels, decoder, each, gated, grouped, rmsnorm
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, GATED, PRE_NORMS, decoder_family
from ..rotary import rope


def read(c: Ledger) -> Written:
    """HyperCLOVAXConfig."""
    scale, branch = c.get("attention_multiplier"), float(c.get("residual_multiplier", 1.0))
    attention = {
        **grouped(c),
        "bias": c.get("attention_bias", False),
        "position": rope(c),
        "scale": None if scale in (None, channels(c) ** -0.5) else float(scale),
    }
    block = {
        "placement": "sandwich" if c.get("use_post_norm", True) else "pre",
        "residual": {"branch_scale": branch} if branch != 1.0 else None,
        "attention": attention,
        "ffn": gated(c, bias=c.get("mlp_bias", False)),
    }
    return decoder(
        c,
        norm=rmsnorm(c),
        embedding={"scale": float(c.get("embedding_multiplier", 1.0))},
        layers=each(c, lambda i: block),
        head={"scale": float(c.get("logits_scaling", 1.0))},
        tied=False,
    )


FAMILY = decoder_family(
    "hyperclovax",
    read,
    (
        *PRE_NORMS,
        rule("attention_branch_norm.*", "post_norm1.*"),
        rule("ffn_branch_norm.*", "post_norm2.*"),
        *ATTENTION,
        *GATED,
    ),
)
