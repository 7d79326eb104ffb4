"""Phi 3 and 4-mini: Llama with one matrix for q, k and v, one for gate and up; windows, longrope, and part of a head turned."""

from __future__ import annotations

from archspec.ops.model import Model

from ..blocks import Written, decoder, each, gated, grouped, rmsnorm
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, GATED, PRE_NORMS, decoder_family
from ..rotary import rope
from ..transforms import Fuse
from ..write import activation_name, causal, layers, rope_parameters
from ..write import grouped as heads


def read(c: Ledger) -> Written:
    """Phi3Config. The context before scaling is said outside the scaling, and 4096 where it is not."""
    c.known(attention_bias=False, mlp_bias=False, lm_head_bias=False, full_attn_mod=1, interpolate_factor=1)
    position = rope(c, partial=1.0)
    original = c.get("original_max_position_embeddings", 4096)
    if "original_context" in (position["scaling"] or ()):
        position["scaling"] |= {"original_context": original}
    block = {
        "attention": {**grouped(c), "position": position, "window": c.get("sliding_window")},
        "ffn": gated(c),
    }
    return decoder(c, norm=rmsnorm(c, 1e-5), layers=each(c, lambda i: block), tied=False)


def write(model: Model, context_length: int | None) -> Written:
    """Phi3Config of a model."""
    parts = layers(model, "phi3")
    a = parts.attention
    turning = {
        **rope_parameters(a.rope),
        "partial_rotary_factor": a.rope.dim / a.head_dim if a.rope else 1.0,
    }
    original = turning.get("original_max_position_embeddings")
    values = {
        **heads(a),
        **({"original_max_position_embeddings": original} if original else {}),
        "rope_parameters": turning,
        "sliding_window": a.scores.mask.window,
        "intermediate_size": parts.ffn.hidden,
        "hidden_act": activation_name(parts.ffn.activation),
    }
    return causal(model, context_length, "phi3", "Phi3", values)


FAMILY = decoder_family(
    "phi3",
    read,
    (
        *PRE_NORMS,
        rule("attention.q.* attention.k.* attention.v.*", "self_attn.qkv_proj.*", Fuse()),
        ATTENTION[3],
        rule("ffn.gate.* ffn.up.*", "mlp.gate_up_proj.*", Fuse()),
        GATED[2],
    ),
    write=write,
)
