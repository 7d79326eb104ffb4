"""Granite with windows: sinks, a rotation of its own (or none) in each layer; multipliers everywhere."""

from __future__ import annotations

from archspec.errors import WeightsError

from ..blocks import DEPTH, Block, Written, decoder, each, gated, grouped, layer_types, rmsnorm
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, GATED, PRE_NORMS, decoder_family
from ..rotary import rope


def read(c: Ledger) -> Written:
    """GraniteSWAConfig."""
    types = layer_types(c, lambda i: "sliding_attention" if i % 4 else "full_attention")
    window, branch = c.get("sliding_window", 128), float(c.get("residual_multiplier", 1.0))
    positions = _positions(c)

    def block(i: int) -> Block:
        attention = {
            **grouped(c, kv_heads=4),
            "bias": c.get("attention_bias", False),
            "position": positions[i],
            "scale": float(c.get("attention_multiplier", 1.0)),
            "sinks": True,
            "window": window if types[i] == "sliding_attention" else None,
        }
        return {"attention": attention, "ffn": gated(c, bias=c.get("mlp_bias", False))}

    return decoder(
        c,
        norm=rmsnorm(c, 1e-5),
        embedding={"scale": float(c.get("embedding_multiplier", 1.0))},
        stack={"residual": {"branch_scale": branch} if branch != 1.0 else None},
        layers=each(c, block),
        head={"scale": 1 / float(c.get("logits_scaling", 1.0))},
        tied=True,
    )


def _positions(c: Ledger) -> list[Block | str]:
    """The rotation of each layer. layer_rope_theta, where it is said, takes the place of rope_theta; 0 means no rotation."""
    depth, position = c.whole(DEPTH), rope(c)
    thetas = c.get("layer_rope_theta", [position["theta"]] * depth)
    if len(thetas) != depth:
        raise WeightsError(f"the config has {len(thetas)} of layer_rope_theta for {depth} layers.")
    return [{**position, "theta": float(theta)} if theta else "none" for theta in thetas]


FAMILY = decoder_family(
    "granite_swa", read, (*PRE_NORMS, *ATTENTION, rule("attention.sinks", "self_attn.sinks"), *GATED)
)
