"""Command R: attention and feed-forward network side by side after one LayerNorm without bias, logits scaled down."""

from __future__ import annotations

from ..blocks import Written, decoder, each, gated, grouped, layernorm
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, GATED, decoder_family
from ..rotary import rope
from ..transforms import Flatten


def read(c: Ledger) -> Written:
    """CohereConfig."""
    attention = {
        **grouped(c),
        "bias": c.get("attention_bias", False),
        "position": rope(c, theta=500000.0, interleaved=True),
        "qk_norm": {"over": "each_head"} if c.get("use_qk_norm", False) else None,
    }
    block = {"attention": attention, "ffn": gated(c)}
    return decoder(
        c,
        norm=layernorm(c, bias=False),
        stack={"parallel": "one_norm"},
        layers=each(c, lambda i: block),
        head={"scale": float(c.get("logit_scale", 0.0625))},
        tied=True,
    )


FAMILY = decoder_family(
    "cohere",
    read,
    (
        rule("input_norm.*", "input_layernorm.*"),
        *ATTENTION,
        rule("attention.q_norm.weight", "self_attn.q_norm.weight", Flatten()),
        rule("attention.k_norm.weight", "self_attn.k_norm.weight", Flatten()),
        *GATED,
    ),
)
