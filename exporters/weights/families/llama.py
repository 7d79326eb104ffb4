"""Llama 1 to 3.2, and the many models whose checkpoints are Llama's."""

from __future__ import annotations

from archspec.ops.model import Model

from ..blocks import Written, decoder, each, gated, grouped, rmsnorm
from ..config import Ledger
from ..names import ATTENTION, GATED, PRE_NORMS, decoder_family
from ..rotary import rope
from ..write import activation_name, causal, layers, rope_parameters
from ..write import grouped as heads


def read(c: Ledger) -> Written:
    """LlamaConfig."""
    block = {
        "attention": {**grouped(c), "bias": c.get("attention_bias", False), "position": rope(c)},
        "ffn": gated(c, bias=c.get("mlp_bias", False)),
    }
    return decoder(c, norm=rmsnorm(c), layers=each(c, lambda i: block), tied=False)


def write(model: Model, context_length: int | None) -> Written:
    """LlamaConfig of a model."""
    parts = layers(model, "llama")
    values = {
        **heads(parts.attention),
        "attention_bias": bool(parts.attention.bias),
        "rope_parameters": rope_parameters(parts.attention.rope),
        "intermediate_size": parts.ffn.hidden,
        "hidden_act": activation_name(parts.ffn.activation),
        "mlp_bias": bool(parts.ffn.bias),
    }
    return causal(model, context_length, "llama", "Llama", values)


FAMILY = decoder_family("llama", read, (*PRE_NORMS, *ATTENTION, *GATED), write=write)
