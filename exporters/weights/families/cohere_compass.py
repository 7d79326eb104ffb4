"""Cohere Compass, its text part: one norm for attention and ffn side by side, rotations on layers with a window.

A token of text has one position on all three axes of its rotations, so that mrope_section says nothing here.
"""

from __future__ import annotations

from archspec.errors import WeightsError

from ..blocks import Written, decoder, each, gated, grouped, layer_types, layernorm
from ..config import Ledger
from ..entries import Block
from ..maps import rule
from ..names import ATTENTION, GATED, decoder_family
from ..rotary import rope


def read(c: Ledger) -> Written:
    """CohereCompassTextConfig. A layer type without rotations is null in rope_parameters, or not in it."""
    c.known(pooling=None)
    types, window, ffn = layer_types(c), c.get("sliding_window", 4096), gated(c)

    def block(i: int) -> Written:
        attention = {
            **grouped(c),
            "bias": c.get("attention_bias", False),
            "position": _position(c, types[i]),
            "window": window if types[i] == "sliding_attention" else None,
        }
        return {"parallel": "one_norm", "attention": attention, "ffn": ffn}

    head = {"scale": float(c.get("logit_scale", 1.0))}
    return decoder(c, norm=layernorm(c, bias=False), layers=each(c, block), tied=True, head=head)


def _position(c: Ledger, layer_type: str) -> Block | str:
    p = c.part("rope_parameters")
    by_type = p.nested()
    if len(p) != len(by_type):
        raise WeightsError("the config has rope_parameters that are not by layer type.")
    p.ignore(*by_type)
    if layer_type not in p:
        return "none"
    p.part(layer_type).ignore("mrope_section", "mrope_interleaved")
    return rope(c, layer_type)


FAMILY = decoder_family(
    "cohere_compass",
    read,
    (rule("input_norm.weight", "input_layernorm.weight"), *ATTENTION, *GATED),
    types=("cohere_compass_text",),
)
