"""DeepSeek-V2: latent attention; experts chosen by softmax, from the best groups, their weights not renormalised."""

from __future__ import annotations

from archspec.errors import WeightsError

from ..blocks import Block, Written, decoder, dense_or_sparse, each, expert_groups, rmsnorm
from ..config import Ledger
from ..names import GATED, LATENT, PRE_NORMS, decoder_family, experts, shared
from ..rotary import latent


def read(c: Ledger) -> Written:
    """DeepseekV2Config, and that of the models' own repositories."""
    c.known(attention_bias=False, mlp_bias=False, scoring_func="softmax", moe_layer_freq=1)
    c.known(norm_topk_prob=False)  # the models' own code renormalises where it is true, transformers' does not
    c.ignore("ep_size")
    attention = latent(c)
    dense = c.get("first_k_dense_replace", 0)
    router = {"normalize": False, "scale": float(c.get("routed_scaling_factor", 1.0)), "groups": _groups(c)}

    def block(i: int) -> Block:
        return {"attention": attention, "ffn": dense_or_sparse(c, i >= dense, router, shared=2)}

    return decoder(c, norm=rmsnorm(c), layers=each(c, block), tied=False)


def _groups(c: Ledger) -> Block | None:
    method = c.get("topk_method", "greedy")
    if method == "group_limited_greedy":
        return expert_groups(c, "max")
    if method != "greedy":
        raise WeightsError(f"the config has topk_method: {method}, which this map does not carry.")
    c.ignore("n_group", "topk_group")
    return None


FAMILY = decoder_family("deepseek_v2", read, (*PRE_NORMS, *LATENT, *GATED, *experts(), *shared()))
