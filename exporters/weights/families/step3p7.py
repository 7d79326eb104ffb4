"""Step 3.7, its text part: a gate for each head, as many heads as the layer type says, gates clamped after their activation."""

from __future__ import annotations

from ..blocks import Block, Written, biased_router, decoder, each, gated, grouped, inverse_root, layer_types, moe, rmsnorm, sparse_layers  # fmt: skip
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, GATED, PRE_NORMS, QK_NORM, decoder_family, experts, shared
from ..rotary import rope


def read(c: Ledger) -> Written:
    """Step3p7TextConfig."""
    c.known(use_bidirectional_attention=False, attention_other_setting=None, moe_layers_enum=None)
    c.ignore("mtp_layer_types", "mtp_mlp_layer_types", "num_nextn_predict_layers", "use_bidirectional_attention")
    types, sparse = layer_types(c), sparse_layers(c, lambda i: i >= 3)
    own = grouped(c, kv_heads=8, head_dim=128)
    sliding_heads = c.whole("num_sliding_attention_heads", own["heads"])
    _check_heads(c, types, sliding_heads)
    head_dim, window = c.whole("head_dim", 128), c.stated("sliding_window", None)
    gating = c.get("gating", True)
    c.known(gating=gating if gating in (True, "per-head") else True)
    shared_attention = {
        "kv_heads": c.whole("num_key_value_heads", 8),
        "head_dim": head_dim,
        "bias": c.get("attention_bias", False),
        "scale": _scale(c.get("query_pre_attn_scalar", head_dim), head_dim),
        "qk_norm": {"over": "head"},
        "gate": {"activation": "sigmoid", "per": "head"},
    }
    router = biased_router(c, 1.0) | {"normalize": True, "scale": float(c.get("moe_router_scaling_factor", 1.0))}
    clamps, shared_clamps = (c.get(key) or [None] * len(types) for key in ("swiglu_limits", "swiglu_limits_shared"))

    def ffn(i: int) -> Block:
        of_shared = shared_clamps[i] or None
        if not sparse[i]:
            return {**gated(c, bias=c.get("mlp_bias", False)), **_clamp(of_shared)}
        c.known(mlp_bias=False)
        expert = {**gated(c, "moe_intermediate_size"), **_clamp(clamps[i] or None)}
        made = moe(c, expert, router, shared=c.whole("share_expert_dim", 1280))
        if clamps[i] or of_shared:
            expert.update(clamp_at="activation")
            made["shared"]["clamp"] = of_shared or "none"
        return made

    def block(i: int) -> Block:
        slides = types[i] == "sliding_attention"
        heads = sliding_heads if slides else own["heads"]
        position = rope(c, types[i], head_dim=head_dim)
        attention = {**shared_attention, "heads": heads, "position": position, "window": window if slides else None}
        return {"attention": attention, "ffn": ffn(i)}

    return decoder(c, norm=rmsnorm(c, 1e-5, "1+w"), layers=each(c, block), tied=False)
