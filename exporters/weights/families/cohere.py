"""Command R: attention and feed-forward network side by side after one LayerNorm without bias, logits scaled down."""

from __future__ import annotations

from archspec.ops.head import LmHead
from archspec.ops.model import Model

from ..blocks import Written, decoder, each, gated, grouped, layernorm
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, GATED, decoder_family
from ..rotary import rope
from ..transforms import Flatten
from ..write import activation_name, causal, eps, layers, rope_parameters
from ..write import grouped as heads


def read(c: Ledger) -> Written:
    """CohereConfig."""
    c.ignore("model_max_length")  # what a tokenizer would take
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


def write(model: Model, context_length: int | None) -> Written:
    """CohereConfig of a model."""
    parts = layers(model, "cohere")
    a = parts.attention
    values = {
        **heads(a),
        "rope_parameters": rope_parameters(a.rope),
        "attention_bias": bool(a.bias),
        "use_qk_norm": a.qk_norm is not None,
        "logit_scale": model.head.scale if isinstance(model.head, LmHead) else 1.0,
        "intermediate_size": parts.ffn.hidden,
        "hidden_act": activation_name(parts.ffn.activation),
        "rms_norm_eps": None,
        "layer_norm_eps": eps(parts.stack.final_norm),
    }
    return causal(model, context_length, "cohere", "Cohere", values)


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
    write=write,
)
