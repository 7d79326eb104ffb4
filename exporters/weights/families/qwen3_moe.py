"""Qwen 3 with experts: in every layer, or in some."""

from __future__ import annotations

from archspec.errors import WeightsError
from archspec.ops.model import Model
from archspec.ops.moe import Moe

from ..blocks import Block, Written, decoder, each, gated, grouped, moe, rmsnorm
from ..config import Ledger
from ..names import ATTENTION, GATED, PRE_NORMS, QK_NORM, decoder_family, experts
from ..rotary import rope
from ..write import activation_name, causal, layers, rope_parameters
from ..write import grouped as heads


def read(c: Ledger) -> Written:
    """Qwen3MoeConfig."""
    window = c.stated("sliding_window", 4096) if c.get("use_sliding_window", False) else None
    c.ignore("sliding_window", "max_window_layers", "intermediate_size")
    dense, step = c.get("mlp_only_layers", []), c.get("decoder_sparse_step", 1)
    router = {"normalize": c.get("norm_topk_prob", False)}

    def block(i: int) -> Block:
        own = {
            "bias": c.get("attention_bias", False),
            "qk_norm": {"over": "head"},
            "position": rope(c),
            "window": window,
        }
        sparse = i not in dense and (i + 1) % step == 0
        ffn = moe(c, gated(c, "moe_intermediate_size"), router) if sparse else gated(c)
        return {"attention": {**grouped(c, kv_heads=4), **own}, "ffn": ffn}

    return decoder(c, norm=rmsnorm(c), layers=each(c, block), tied=False)


def write(model: Model, context_length: int | None) -> Written:
    """Qwen3MoeConfig of a model."""
    parts = layers(model, "qwen3_moe")
    sparse = [f for f in parts.ffns if isinstance(f, Moe)]
    dense = [i for i, f in enumerate(parts.ffns) if not isinstance(f, Moe)]
    if not sparse:
        raise WeightsError("the qwen3_moe form has experts.")
    window = parts.attention.scores.mask.window
    values = {
        **heads(parts.attention),
        "attention_bias": bool(parts.attention.bias),
        "rope_parameters": rope_parameters(parts.attention.rope),
        "use_sliding_window": window is not None,
        "sliding_window": window,
        "num_experts": sparse[0].experts,
        "num_experts_per_tok": sparse[0].routing.k,
        "norm_topk_prob": sparse[0].routing.normalize,
        "moe_intermediate_size": sparse[0].expert.hidden,
        "mlp_only_layers": dense,
        "intermediate_size": parts.ffn.hidden if dense else sparse[0].expert.hidden,
        "hidden_act": activation_name(sparse[0].expert.activation),
    }
    return causal(model, context_length, "qwen3_moe", "Qwen3Moe", values)


FAMILY = decoder_family("qwen3_moe", read, (*PRE_NORMS, *ATTENTION, *QK_NORM, *GATED, *experts()), write=write)
