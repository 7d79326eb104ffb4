"""HY 3: norms of each head of q and k; experts chosen by sigmoid and a bias that only selects; the first layers dense."""

from __future__ import annotations

from ..blocks import Block, Written, decoder, dense_or_sparse, each, grouped, rmsnorm, sparse_layers
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, GATED, PRE_NORMS, QK_NORM, decoder_family, experts, shared
from ..rotary import rope


def read(c: Ledger) -> Written:
    """HYV3Config."""
    c.known(mlp_bias=False)
    c.ignore("enable_moe_fp32_combine", "num_nextn_predict_layers")
    attention = {
        **grouped(c, kv_heads=8, head_dim=128),
        "bias": c.get("attention_bias", False),
        "qk_norm": {"over": "head"},
        "position": rope(c, theta=11158840.0, head_dim=c.whole("head_dim", 128)),
    }
    sparse = sparse_layers(c, lambda i: i > 0)
    router = {
        "score": "sigmoid",
        "selection_bias": "score",
        "normalize": True,
        "scale": float(c.get("router_scaling_factor", 2.826)),
    }

    def block(i: int) -> Block:
        return {"attention": attention, "ffn": dense_or_sparse(c, sparse[i], router)}

    return decoder(c, norm=rmsnorm(c, 1e-5), layers=each(c, block), tied=False)


#: As the published checkpoints name them, and before that as modules of transformers do.
_EXPERTS = (
    rule("ffn.router.*", "mlp.router.gate.*"),
    rule("ffn.selection_bias", "mlp.expert_bias"),
    rule("ffn.selection_bias", "mlp.e_score_correction_bias"),
    *experts(),
    *shared("mlp.shared_mlp."),
    *shared(),
)

FAMILY = decoder_family("hy_v3", read, (*PRE_NORMS, *ATTENTION, *QK_NORM, *GATED, *_EXPERTS), beyond=True)
