"""Step 3.7, its text part: a gate a head, as many heads as the layer's type says, gates that are clamped after the activation."""

from __future__ import annotations

from archspec.errors import WeightsError

from ..blocks import (
    DEPTH,
    HEADS,
    INNER,
    Block,
    Written,
    decoder,
    each,
    inverse_root,
    layer_types,
    moe,
    rmsnorm,
    sparse_layers,
)
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, GATED, PRE_NORMS, QK_NORM, decoder_family, experts, shared
from ..rotary import rope


def read(c: Ledger) -> Written:
    """Step3p7TextConfig."""
    c.known(use_bidirectional_attention=False, attention_other_setting=None, moe_layers_enum=None, moe_layer_freq=None)
    c.known(rope_theta=None, partial_rotary_factors=None, sparse_attention_config=None)
    c.ignore("hidden_act", "num_nextn_predict_layers", "mtp_layer_types", "mtp_mlp_layer_types")  # its gates are silu
    types, sparse = layer_types(c), sparse_layers(c, lambda i: i >= 3)
    heads, window = _heads(c, types), c.stated("sliding_window", None)
    head_dim, bias = c.whole("head_dim", 128), bool(c.get("mlp_bias", False))
    scalar = c.get("query_pre_attn_scalar", head_dim)
    own = {
        "kv_heads": c.whole("num_key_value_heads", 8),
        "head_dim": head_dim,
        "bias": c.get("attention_bias", False),
        "scale": None if scalar == head_dim else inverse_root(scalar),
        "qk_norm": {"over": "head"},
        "gate": {"activation": "sigmoid", "per": _gating(c)},
    }
    router = {
        "score": "sigmoid",
        "selection_bias": "score",
        "normalize": True,
        "scale": float(c.get("moe_router_scaling_factor", 1.0)),
    }
    limits, dense_limits = _limits(c, "swiglu_limits"), _limits(c, "swiglu_limits_shared")

    def ffn(i: int) -> Block:
        if not sparse[i]:
            return _gated(c.whole(INNER), dense_limits[i], bias)
        c.known(mlp_bias=False)
        mixture = moe(
            c, _gated(c.whole("moe_intermediate_size", 1280), limits[i]), router, c.whole("share_expert_dim", 1280)
        )
        if limits[i] != dense_limits[i]:
            mixture["expert"]["clamp_at"] = "activation"
            mixture["shared"]["clamp"] = dense_limits[i] or "none"
        return mixture

    def block(i: int) -> Block:
        slides = types[i] == "sliding_attention"
        position = rope(c, types[i], partial=1.0, head_dim=head_dim)
        attention = {"heads": heads[i], **own, "position": position, "window": window if slides else None}
        return {"attention": attention, "ffn": ffn(i)}

    c.ignore(
        "intermediate_size", "moe_intermediate_size", "share_expert_dim", "n_routed_experts", "num_experts_per_tok"
    )
    return decoder(c, norm=rmsnorm(c, 1e-5, "1+w"), layers=each(c, block), tied=False)


def _heads(c: Ledger, types: list[str]) -> list[int]:
    """Query heads of each layer: what it says of itself, else those of its type."""
    heads = c.whole(HEADS)
    sliding = c.whole("num_sliding_attention_heads", heads)
    if "per_layer_config" not in c:
        return [sliding if t == "sliding_attention" else heads for t in types]
    own = c.part("per_layer_config")
    return [own.part(str(i)).whole("num_attention_heads", heads) for i in range(len(types))]


def _gating(c: Ledger) -> str:
    if (gating := c.get("gating", True)) not in (True, "per-head"):
        raise WeightsError(f"the config has gating: {gating}, where a gate a head is meant.")
    return "head"


def _limits(c: Ledger, key: str) -> list[float | None]:
    """The clamp of each layer; 0 is none."""
    depth = c.whole(DEPTH)
    said = c.get(key) or [None] * depth
    if len(said) != depth:
        raise WeightsError(f"the config has {key}: {said}, where {depth} numbers are meant.")
    return [float(limit) if limit else None for limit in said]


def _gated(width: int, limit: float | None, bias: bool = False) -> Block:
    clamp = {"clamp": limit, "clamp_at": "activation"} if limit else {}
    return {"kind": "gated", "width": width, "activation": "silu", "bias": bias, **clamp}


FAMILY = decoder_family(
    "step3p7",
    read,
    (
        *PRE_NORMS,
        *ATTENTION,
        rule("attention.gate.weight", "self_attn.g_proj.weight"),
        *QK_NORM,
        *GATED,
        *experts(),
        *shared(),
    ),
    types=("step3p5",),
    beyond=True,
)
