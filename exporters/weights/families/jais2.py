"""Jais 2: LayerNorms and biases, a plain feed-forward network of squared ReLU."""

from __future__ import annotations

from archspec.ops.model import Model

from ..blocks import Written, decoder, each, grouped, layernorm, mlp
from ..config import Ledger
from ..names import ATTENTION, GATED, PRE_NORMS, decoder_family
from ..rotary import rope
from ..write import activation_name, causal, eps, layers, rope_parameters
from ..write import grouped as heads


def read(c: Ledger) -> Written:
    """Jais2Config."""
    block = {
        "attention": {**grouped(c), "bias": c.get("attention_bias", True), "position": rope(c)},
        "ffn": mlp(c, act="relu2", bias=c.get("mlp_bias", True)),
    }
    return decoder(c, norm=layernorm(c), layers=each(c, lambda i: block), tied=False)


def write(model: Model, context_length: int | None) -> Written:
    """Jais2Config of a model."""
    parts = layers(model, "jais2")
    a = parts.attention
    values = {
        **heads(a),
        "rope_parameters": rope_parameters(a.rope),
        "attention_bias": bool(a.bias),
        "mlp_bias": bool(parts.ffn.bias),
        "intermediate_size": parts.ffn.hidden,
        "hidden_act": activation_name(parts.ffn.activation),
        "rms_norm_eps": None,
        "layer_norm_eps": eps(parts.stack.final_norm),
    }
    return causal(model, context_length, "jais2", "Jais2", values)


FAMILY = decoder_family("jais2", read, (*PRE_NORMS, *ATTENTION, *GATED[1:]), write=write)
