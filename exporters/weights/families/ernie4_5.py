"""ERNIE 4.5, the dense ones: Llama turned in adjacent pairs, one switch for all biases."""

from __future__ import annotations

from archspec.ops.model import Model

from ..blocks import Written, decoder, each, gated, grouped, rmsnorm
from ..config import Ledger
from ..names import ATTENTION, GATED, PRE_NORMS, decoder_family
from ..rotary import rope
from ..write import activation_name, causal, layers, rope_parameters
from ..write import grouped as heads


def read(c: Ledger) -> Written:
    """Ernie4_5Config."""
    c.known(use_rmsnorm=True)
    bias = c.get("use_bias", False)
    position = rope(c, theta=500000.0, interleaved=True, head_dim=c.whole("head_dim", 128))
    block = {
        "attention": {**grouped(c, kv_heads=2, head_dim=128), "bias": bias, "position": position},
        "ffn": gated(c, bias=bias),
    }
    return decoder(c, norm=rmsnorm(c, 1e-5), layers=each(c, lambda i: block), tied=True)


def write(model: Model, context_length: int | None) -> Written:
    """Ernie4_5Config of a model."""
    parts = layers(model, "ernie4_5")
    a = parts.attention
    values = {
        **heads(a),
        "rope_parameters": rope_parameters(a.rope),
        "use_bias": bool(a.bias),
        "intermediate_size": parts.ffn.hidden,
        "hidden_act": activation_name(parts.ffn.activation),
    }
    return causal(model, context_length, "ernie4_5", "Ernie4_5", values)


FAMILY = decoder_family("ernie4_5", read, (*PRE_NORMS, *ATTENTION, *GATED), write=write)
