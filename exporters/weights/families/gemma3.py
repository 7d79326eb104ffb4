"""Gemma 3, the text part: five windows to one full layer, each with its own rotation; a norm of each head of q and k."""

from __future__ import annotations

from archspec.ops.attention import Attention
from archspec.ops.model import Model

from ..blocks import Block, Written, decoder, each, every, gated, layer_types, rmsnorm
from ..config import Ledger
from ..names import ATTENTION, GATED, QK_NORM, SANDWICH_NORMS, decoder_family
from ..rotary import rope
from ..write import activation_name, causal, layers, rope_parameters, sliding
from ..write import grouped as heads
from .gemma import scaled
from .gemma2 import attention


def _position(c: Ledger, layer_type: str) -> Block:
    wide, theta = c.whole("head_dim", 256), 1e6 if layer_type == "full_attention" else 1e4
    if "rope_parameters" in c:
        return rope(c, layer_type, theta=theta, head_dim=wide)
    if layer_type == "sliding_attention":  # rope_theta and rope_scaling were of the full layers
        return {"kind": "rope", "theta": float(c.get("rope_local_base_freq", theta))}
    return rope(c, theta=theta, head_dim=wide)


def read(c: Ledger) -> Written:
    """Gemma3TextConfig."""
    c.known(
        use_bidirectional_attention=False, attn_logit_softcapping=None
    )  # a cap that its class stores, and does not apply
    window = c.stated("sliding_window", 4096)
    types = layer_types(c, every(c.get("sliding_window_pattern|_sliding_window_pattern", 6)))

    def block(i: int) -> Block:
        own = attention(c, window if types[i] == "sliding_attention" else None)
        position = _position(c, types[i])
        return {
            "attention": {**own, "qk_norm": {"over": "head"}, "position": position},
            "ffn": gated(c, act="gelu_pytorch_tanh", key="hidden_activation"),
        }

    c.ignore("hidden_act", "rope_local_base_freq")
    return decoder(
        c, norm=rmsnorm(c, weight="1+w"), embedding=scaled(c), stack={"placement": "sandwich"}, layers=each(c, block),
        head={"softcap": c.stated("final_logit_softcapping", None)}, tied=True,
    )  # fmt: skip


def write(model: Model, context_length: int | None) -> Written:
    """Gemma3TextConfig of a model."""
    parts = layers(model, "gemma3")
    kinds = {"sliding_attention": True, "full_attention": False}
    ropes = {
        kind: next((a.rope for a in parts.attentions if bool(a.scores.mask.window) is has_window), None)
        for kind, has_window in kinds.items()
    }
    known = next(r for r in ropes.values() if r) if any(ropes.values()) else None
    first = parts.attention
    assert isinstance(first, Attention)
    values = {
        **heads(first),
        **sliding(parts.attentions),
        "attention_bias": bool(first.bias),
        "query_pre_attn_scalar": round(first.scores.scale**-2),
        "attn_logit_softcapping": first.scores.softcap,
        "final_logit_softcapping": getattr(model.head, "softcap", None),
        "rope_parameters": {kind: rope_parameters(r or known) for kind, r in ropes.items()},
        "intermediate_size": parts.ffn.hidden,
        "hidden_activation": activation_name(parts.ffn.activation),
    }
    return causal(model, context_length, "gemma3_text", "Gemma3", values)


FAMILY = decoder_family(
    "gemma3", read, (*SANDWICH_NORMS, *ATTENTION, *QK_NORM, *GATED), types=("gemma3_text",), write=write
)
