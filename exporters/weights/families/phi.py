"""Phi 1 to 2: attention and feed-forward network side by side after one LayerNorm, half of a head turned, biases everywhere."""

from __future__ import annotations

from ..blocks import Written, decoder, each, grouped, layernorm, mlp
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, decoder_family
from ..rotary import rope


def read(c: Ledger) -> Written:
    """PhiConfig."""
    attention = {
        **grouped(c),
        "bias": True,
        "position": rope(c, partial=0.5),
        "qk_norm": {"over": "head"} if c.get("qk_layernorm", False) else None,
    }
    block = {"attention": attention, "ffn": mlp(c, act="gelu_new")}
    return decoder(
        c,
        norm=layernorm(c),
        stack={"parallel": "one_norm"},
        layers=each(c, lambda i: block),
        head={"bias": True},
        tied=False,
    )


FAMILY = decoder_family(
    "phi",
    read,
    (
        rule("input_norm.*", "input_layernorm.*"),
        *ATTENTION[:3],
        rule("attention.o.*", "self_attn.dense.*"),
        rule("attention.q_norm.*", "self_attn.q_layernorm.*"),
        rule("attention.k_norm.*", "self_attn.k_layernorm.*"),
        rule("ffn.up.*", "mlp.fc1.*"),
        rule("ffn.down.*", "mlp.fc2.*"),
    ),
    final="final_layernorm",
)
