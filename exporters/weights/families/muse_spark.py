"""Muse Spark, its text part: Muse Glimmer's attention with normed heads, residual gates, and experts in a normed latent."""

from __future__ import annotations

from ..blocks import Block, Written, decoder, each, gated, moe, rmsnorm, sparse_layers
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, GATED, SANDWICH_NORMS, decoder_family, experts
from .muse_glimmer import attention, head


def read(c: Ledger) -> Written:
    """MuseSparkTextConfig."""
    mixed, logits = attention(c, 16, 64, 5.4730064863875, 500000.0), head(c, 0.1767766952966369)
    sparse, eps = sparse_layers(c, lambda i: True), float(c.get("post_norm_eps", 1e-8))
    heads = {"head_norm": {"weight": "none"}, "branch_norm": {"weight": "none", "eps": eps}}
    weighed = {"eps": eps, "weight_first": True}
    router = {
        "score": "sigmoid",
        "selection_bias": "score",
        "normalize": True,
        "scale": float(c.get("routed_scaling_factor", 1.0)),
        "input_scale": logits["scale"],
    }

    def block(i: int) -> Block:
        ffn: Block = gated(c)
        if sparse[i]:
            ffn = moe(c, gated(c, "moe_intermediate_size"), router)
            ffn |= {"latent": {"dim": c.whole("moe_hidden_size", 4096), "norm": {}}, "expert_norm": weighed}
        return {"attention": {**mixed[i], **heads}, "ffn": {**ffn, "branch_norm": weighed}}

    c.ignore(
        "intermediate_size", "moe_intermediate_size", "num_local_experts", "num_experts_per_tok", "moe_hidden_size"
    )
    return decoder(
        c,
        norm=rmsnorm(c, 1e-5, "1+w"),
        embedding={"norm": {"weight": "none"}},
        stack={
            "placement": "sandwich",
            "residual": {"kind": "gated", "temperature": float(c.get("residual_gate_temperature", 0.3)), "floor": 1e-3},
            "final_norm": {"weight": "w"},
        },
        layers=each(c, block),
        tied=False,
        head=logits,
    )


_MIXTURE = (
    rule("ffn.latent_down.*", "mlp.pre_expert_proj.*"),
    rule("ffn.latent_norm.*", "mlp.pre_expert_norm.*"),
    rule("ffn.expert_norm.*", "mlp.experts.post_expert_norm.*"),
    rule("ffn.latent_up.*", "mlp.post_expert_proj.*"),
)
_GATES = (
    rule("attention_residual.gate", "post_attention_residual_gate.gate"),
    rule("ffn_residual.gate", "post_feedforward_residual_gate.gate"),
)
FAMILY = decoder_family(
    "muse_spark",
    read,
    (
        *SANDWICH_NORMS,
        *_GATES,
        *ATTENTION,
        rule("attention.gate.weight", "self_attn.gate_proj.weight"),
        *GATED,
        *experts(),
        *_MIXTURE,
    ),
    types=("muse_spark_text",),
)
