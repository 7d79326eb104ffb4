"""GLM-4 9B: the first half of a head turned in adjacent pairs, biases on q, k and v, one matrix for gate and up."""

from __future__ import annotations

from archspec.ops.model import Model

from ..blocks import Written, biases, decoder, each, gated, grouped, rmsnorm
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, GATED, PRE_NORMS, decoder_family
from ..rotary import rope
from ..transforms import Fuse
from ..write import activation_name, causal, layers, rope_parameters
from ..write import grouped as heads


def read(c: Ledger) -> Written:
    """GlmConfig."""
    attention = {
        **grouped(c, kv_heads=2, head_dim=128),
        "bias": biases(qkv=c.get("attention_bias", True)),
        "position": rope(c, interleaved=True, partial=0.5, head_dim=c.whole("head_dim", 128)),
    }
    block = {"attention": attention, "ffn": gated(c)}
    return decoder(c, norm=rmsnorm(c, 1.5625e-7), layers=each(c, lambda i: block), tied=False)


def write(model: Model, context_length: int | None) -> Written:
    """GlmConfig of a model."""
    parts = layers(model, "glm")
    a = parts.attention
    values = {
        **heads(a),
        "rope_parameters": {
            **rope_parameters(a.rope),
            "partial_rotary_factor": a.rope.dim / a.head_dim if a.rope else 1.0,
        },
        "attention_bias": bool(a.bias),
        "intermediate_size": parts.ffn.hidden,
        "hidden_act": activation_name(parts.ffn.activation),
    }
    return causal(model, context_length, "glm", "Glm", values)


FAMILY = decoder_family(
    "glm",
    read,
    (*PRE_NORMS, *ATTENTION, rule("ffn.gate.* ffn.up.*", "mlp.gate_up_proj.*", Fuse()), GATED[2]),
    write=write,
)
