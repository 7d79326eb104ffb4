"""Phi-3.5-MoE: experts that a sparse mixer chooses, layernorms, and longrope with a strength stated for short and long texts."""

from __future__ import annotations

from archspec.errors import WeightsError

from ..blocks import Written, decoder, each, gated, grouped, layernorm, moe
from ..config import Ledger
from ..entries import Block
from ..names import ATTENTION, PRE_NORMS, decoder_family, experts
from ..rotary import rope, rope_parameters


def read(c: Ledger) -> Written:
    """PhimoeConfig. An expert counts that is within twice the jitter of the best."""
    c.known(num_experts_per_tok=2)
    c.ignore("input_jitter_noise")
    router = {"score": "sparsemixer", "within": 2 * float(c.get("router_jitter_noise", 0.01)), "normalize": False}
    block = {
        "attention": {
            **grouped(c, kv_heads=8),
            "bias": c.get("attention_bias", False),
            "window": c.get("sliding_window"),
            "position": _position(c),
        },
        "ffn": moe(c, gated(c), router),
    }
    norm = {**layernorm(c), "eps": float(c.get("rms_norm_eps", 1e-5))}
    head = {"bias": c.get("lm_head_bias", False)}
    return decoder(c, norm=norm, layers=each(c, lambda i: block), tied=False, head=head)


def _position(c: Ledger) -> Block:
    """mscale takes the place of longrope's own strength, sqrt(1 + ln(factor) / ln(original))."""
    position, p = rope(c, theta=1e6), rope_parameters(c)
    scaling = position["scaling"]
    if scaling is None:
        return position
    short, long = float(p["short_mscale"]), float(p["long_mscale"])
    if scaling["kind"] != "longrope" or short != long or short < 1:
        told = f"{scaling['kind']} scaling with short_mscale {short:g} and long_mscale {long:g}"
        raise WeightsError(f"the config has {told}, which the language does not have.")
    return position | {"scaling": {**scaling, "factor": scaling["original_context"] ** (short**2 - 1)}}


FAMILY = decoder_family(
    "phimoe",
    read,
    (*PRE_NORMS, *ATTENTION, *experts("block_sparse_moe.", gate="w1", up="w3", down="w2")),
)
