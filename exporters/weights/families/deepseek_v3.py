"""DeepSeek-V3: latent attention; experts chosen by sigmoid, a bias that only selects, and groups; the first layers dense."""

from __future__ import annotations

from math import log, sqrt

from archspec.errors import WeightsError
from archspec.ops import rotary
from archspec.ops.latent import LatentAttention
from archspec.ops.model import Model
from archspec.ops.moe import Moe

from ..blocks import Block, Written, biased_router, decoder, dense_or_sparse, each, expert_groups, rmsnorm
from ..config import Ledger
from ..names import GATED, LATENT, PRE_NORMS, decoder_family, experts, shared
from ..rotary import latent
from ..write import activation_name, causal, layers, rope_parameters


def read(c: Ledger) -> Written:
    """DeepseekV3Config, and that of the models' own repositories."""
    c.known(attention_bias=False, scoring_func="sigmoid", topk_method="noaux_tc", moe_layer_freq=1)
    c.ignore("num_nextn_predict_layers", "num_mtp_layers", "ep_size")
    attention = latent(c, interleaved=c.get("rope_interleave", True))
    dense, router = c.get("first_k_dense_replace", 3), biased_router(c, 2.5, expert_groups(c, "top2_sum"))

    def block(i: int) -> Block:
        return {"attention": attention, "ffn": dense_or_sparse(c, i >= dense, router)}

    return decoder(c, norm=rmsnorm(c), layers=each(c, block), tied=False)


def write(model: Model, context_length: int | None) -> Written:
    """DeepseekV3Config of a model."""
    parts = layers(model, "deepseek_v3")
    a, sparse = parts.attentions[0], next((f for f in parts.ffns if isinstance(f, Moe)), None)
    dense = [isinstance(f, Moe) for f in parts.ffns]
    if not isinstance(a, LatentAttention) or sparse is None or sparse.shared is None:
        raise WeightsError("the deepseek_v3 form has latent attention and experts, one of them shared.")
    first = dense.index(True)
    values = {
        "num_attention_heads": a.heads,
        "num_key_value_heads": a.heads,
        "q_lora_rank": a.q_rank,
        "kv_lora_rank": a.kv_rank,
        "qk_nope_head_dim": a.nope,
        "qk_rope_head_dim": a.turning,
        "v_head_dim": a.v_head_dim,
        "rope_interleave": bool(a.rope and a.rope.interleaved),
        "rope_parameters": _rope_parameters(a),
        "attention_dropout": a.scores.dropout,
        "first_k_dense_replace": first,
        "intermediate_size": parts.ffn.hidden if first else sparse.expert.hidden,
        "moe_intermediate_size": sparse.expert.hidden,
        "n_routed_experts": sparse.experts,
        "n_shared_experts": sparse.shared.hidden // sparse.expert.hidden,
        "num_experts_per_tok": sparse.routing.k,
        "n_group": sparse.routing.groups,
        "topk_group": sparse.routing.keep,
        "norm_topk_prob": sparse.routing.normalize,
        "routed_scaling_factor": sparse.routing.scale,
        "num_nextn_predict_layers": 0,
        "hidden_act": activation_name(sparse.expert.activation),
    }
    return causal(model, context_length, "deepseek_v3", "DeepseekV3", values)


def _rope_parameters(a: LatentAttention) -> Written:
    """With `mscale_all_dim` where the scores are tempered: scale = m² / sqrt(head_dim), m = 0.1 mscale_all_dim ln(factor) + 1."""
    written = rope_parameters(a.rope)
    m = sqrt(a.scores.scale * sqrt(a.nope + a.turning))
    if a.rope and isinstance(a.rope.scaling, rotary.Yarn) and abs(m - 1) > 1e-9:
        written["mscale_all_dim"] = round((m - 1) / (0.1 * log(a.rope.scaling.factor)), 12)
    return written


FAMILY = decoder_family(
    "deepseek_v3", read, (*PRE_NORMS, *LATENT, *GATED, *experts(), *shared()), write=write, beyond=True
)
