"""Phi 1 to 2: attention and feed-forward network side by side after one LayerNorm, half of a head turned, biases everywhere."""

from __future__ import annotations

from archspec.ops.model import Model

from ..blocks import Written, decoder, each, grouped, layernorm, mlp
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, decoder_family
from ..rotary import rope
from ..write import activation_name, causal, eps, layers, rope_parameters
from ..write import grouped as heads


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


def write(model: Model, context_length: int | None) -> Written:
    """PhiConfig of a model."""
    parts = layers(model, "phi")
    a = parts.attention
    values = {
        **heads(a),
        "rope_parameters": {
            **rope_parameters(a.rope),
            "partial_rotary_factor": a.rope.dim / a.head_dim if a.rope else 1.0,
        },
        "qk_layernorm": a.qk_norm is not None,
        "intermediate_size": parts.ffn.hidden,
        "hidden_act": activation_name(parts.ffn.activation),
        "rms_norm_eps": None,
        "layer_norm_eps": eps(parts.stack.final_norm),
    }
    return causal(model, context_length, "phi", "Phi", values)


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
    write=write,
)
