"""StarCoder 2: LayerNorms and biases, a plain feed-forward network, few key heads, the same window in every layer."""

from __future__ import annotations

from archspec.ops.model import Model

from ..blocks import INNER, Written, activation, decoder, each, grouped, layernorm
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, PRE_NORMS, decoder_family
from ..rotary import rope
from ..write import activation_name, causal, eps, layers, rope_parameters
from ..write import grouped as heads


def read(c: Ledger) -> Written:
    """Starcoder2Config."""
    c.known(mlp_type="default", norm_type="layer_norm")
    c.ignore("activation_function")  # hidden_act says it
    bias = c.get("use_bias", True)
    act = activation(c.get("hidden_act", "gelu_pytorch_tanh"))
    block = {
        "attention": {
            **grouped(c, kv_heads=2),
            "bias": bias,
            "position": rope(c),
            "window": c.get("sliding_window"),
        },
        "ffn": {"kind": "mlp", "width": c.whole(INNER), "activation": act, "bias": bias},
    }
    return decoder(c, norm=layernorm(c), layers=each(c, lambda i: block), tied=True)


def write(model: Model, context_length: int | None) -> Written:
    """Starcoder2Config of a model."""
    parts = layers(model, "starcoder2")
    a = parts.attention
    values = {
        **heads(a),
        "rope_parameters": rope_parameters(a.rope),
        "sliding_window": a.scores.mask.window,
        "use_bias": bool(a.bias),
        "intermediate_size": parts.ffn.hidden,
        "hidden_act": activation_name(parts.ffn.activation),
        "rms_norm_eps": None,
        "norm_epsilon": eps(parts.stack.final_norm),
    }
    return causal(model, context_length, "starcoder2", "Starcoder2", values)


FAMILY = decoder_family(
    "starcoder2",
    read,
    (*PRE_NORMS, *ATTENTION, rule("ffn.up.*", "mlp.c_fc.*"), rule("ffn.down.*", "mlp.c_proj.*")),
    write=write,
)
