"""Trinity (AFMoE): a gate on the merged heads, norms on both sides of each sublayer; windows turn, full layers do not."""

from __future__ import annotations

from ..blocks import Block, Written, decoder, dense_or_sparse, each, every, grouped, layer_types, rmsnorm
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, GATED, QK_NORM, decoder_family, experts, shared
from ..rotary import rope


def read(c: Ledger) -> Written:
    """AfmoeConfig, and that of the models' own repositories."""
    c.known(score_func="sigmoid", route_norm=True, n_group=1, topk_group=1, num_expert_groups=1, num_limited_groups=1)
    c.ignore("use_grouped_mm")
    window, position = c.stated("sliding_window", 1024), rope(c, head_dim=c.whole("head_dim", 128))
    types = layer_types(c, every(c.get("global_attn_every_n_layers", 4)))
    own = {
        **grouped(c, head_dim=128),
        "bias": c.get("attention_bias", False),
        "qk_norm": {"over": "head"},
        "gate": {"activation": "sigmoid"},
    }
    dense, router = (
        c.get("num_dense_layers", 1),
        {
            "score": "sigmoid",
            "selection_bias": "score",
            "normalize": True,
            "scale": float(c.get("route_scale", 1.0)),
        },
    )

    def block(i: int) -> Block:
        slides = types[i] == "sliding_attention"
        attention = {**own, "position": position if slides else "none", "window": window if slides else None}
        return {"attention": attention, "ffn": dense_or_sparse(c, i >= dense, router, shared=2)}

    return decoder(
        c,
        norm=rmsnorm(c, 1e-5),
        embedding={"scale": "sqrt(d_model)"} if c.get("mup_enabled", False) else None,
        stack={"placement": "sandwich"},
        layers=each(c, block),
        tied=False,
    )


_NORMS = (
    rule("attention_input_norm.*", "input_layernorm.*"),
    rule("attention_branch_norm.*", "post_attention_layernorm.*"),
    rule("ffn_input_norm.*", "pre_mlp_layernorm.*"),
    rule("ffn_branch_norm.*", "post_mlp_layernorm.*"),
)
FAMILY = decoder_family(
    "afmoe",
    read,
    (
        *_NORMS,
        *ATTENTION,
        rule("attention.gate.weight", "self_attn.gate_proj.weight"),
        *QK_NORM,
        *GATED,
        rule("ffn.selection_bias", "mlp.expert_bias"),
        *experts(router="router.gate"),
        *shared(),
    ),
)
