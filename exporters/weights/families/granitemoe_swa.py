"""Granite with experts, windows and sinks; a rotation of its own in each layer, or none."""

from __future__ import annotations

from archspec.errors import WeightsError

from ..blocks import DEPTH, Block, Written, each, layer_types
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, PRE_NORMS, decoder_family
from ..rotary import rope
from .granitemoeshared import EXPERTS, attention, whole


def read(c: Ledger) -> Written:
    """GraniteMoeSWAConfig."""
    position, window = rope(c), c.stated("sliding_window", 128)
    types = layer_types(c, lambda i: "sliding_attention" if i % 4 else "full_attention")
    thetas = c.get("layer_rope_theta") or [position["theta"]] * c.whole(DEPTH)
    if len(thetas) != len(types):
        raise WeightsError(
            f"the config has layer_rope_theta: {thetas}, where one for each of {len(types)} layers is meant."
        )

    def block(i: int) -> Block:
        return {
            **attention(c),
            "sinks": True,
            "position": {**position, "theta": float(thetas[i])} if thetas[i] else "none",
            "window": window if types[i] == "sliding_attention" else None,
        }

    return whole(c, each(c, block))


FAMILY = decoder_family(
    "granitemoe_swa", read, (*PRE_NORMS, *ATTENTION, rule("attention.sinks", "self_attn.sinks"), *EXPERTS)
)
