"""Command A with experts: attention and ffn in parallel under one norm; the sum with the shared experts may be an average."""

from __future__ import annotations

from archspec.errors import WeightsError

from ..blocks import (
    Block,
    Written,
    decoder,
    each,
    gated,
    grouped,
    layer_types,
    layernorm,
    moe,
    rmsnorm,
    sparse_layers,
)
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, GATED, decoder_family, experts, shared
from ..rotary import rope


def read(c: Ledger) -> Written:
    """Cohere2MoeConfig."""
    first = c.get("first_k_dense_replace", 0)
    prefix, pattern = c.get("prefix_dense_sliding_window_pattern", 1), c.get("sliding_window_pattern", 4)
    types = layer_types(c, lambda i: _slides(i + 1, prefix) if i < first else _slides(i - first + 1, pattern))
    sparse = sparse_layers(c, lambda i: i >= first)
    window = c.stated("sliding_window", 4096)
    position = rope(c, interleaved=True, head_dim=c.whole("head_dim", 128))
    narrow, wide = gated(c), c.get("prefix_dense_intermediate_size") or c.whole("intermediate_size")
    experts_of = _experts(c, narrow)

    def block(i: int) -> Block:
        seen = window if types[i] == "sliding_attention" else None
        turns = seen is not None or (not sparse[i] and prefix == 1)
        attention = {
            **grouped(c, head_dim=128),
            "bias": c.get("attention_bias", False),
            "position": position if turns else "none",
            "window": seen,
        }
        return {"attention": attention, "ffn": experts_of if sparse[i] else {**narrow, "width": wide}}

    return decoder(
        c, norm=_norm(c), stack={"parallel": "one_norm"}, layers=each(c, block),
        head={"scale": float(c.get("logit_scale", 0.0625))}, tied=True,
    )  # fmt: skip


def _slides(nth: int, period: int) -> str:
    return "sliding_attention" if nth % period else "full_attention"


def _norm(c: Ledger) -> Block:
    if "rms_norm_eps" not in c:
        return {**layernorm(c, bias=False), "eps": float(c.get("layer_norm_eps", 1e-5))}
    c.ignore("layer_norm_eps")
    return rmsnorm(c)


def _experts(c: Ledger, expert: Block) -> Block:
    """Experts, and the shared ones, of which the sum or half the sum goes on."""
    score, normalize = c.get("expert_selection_fn", "softmax"), c.get("norm_topk_prob", True)
    if score not in ("softmax", "sigmoid"):
        raise WeightsError(f"the config has expert_selection_fn: {score}, where softmax or sigmoid is meant.")
    router = {"score": score, "normalize": normalize or score == "softmax"}
    count, joined = c.get("num_shared_experts", 0), c.get("shared_expert_combination_strategy", "average")
    if joined not in ("sum", "average"):
        raise WeightsError(
            f"the config has shared_expert_combination_strategy: {joined}, where sum or average is meant."
        )
    halved = {"branch_scale": 0.5} if count and joined == "average" else None
    return {**moe(c, expert, router, shared=count * expert["width"]), "residual": halved}


FAMILY = decoder_family(
    "cohere2_moe",
    read,
    (rule("input_norm.*", "input_layernorm.*"), *ATTENTION, *GATED, *experts(), *shared()),
)
