"""OLMo 2: norms on the branches' outputs only, and over the whole of q and k. OLMo 3: and windows, a rotation by layer type."""

from __future__ import annotations

from collections.abc import Sequence

from ..blocks import DEPTH, Block, Written, decoder, each, every, gated, grouped, layer_types, rmsnorm
from ..config import Ledger
from ..names import ATTENTION, BRANCH_NORMS, GATED, QK_NORM, decoder_family
from ..rotary import rope


def _read(c: Ledger, positions: Sequence[Block], windows: Sequence[int | None]) -> Written:
    def block(i: int) -> Block:
        own = {
            "bias": c.get("attention_bias", False),
            "qk_norm": {"over": "vector"},
            "position": positions[i],
            "window": windows[i],
        }
        return {"attention": {**grouped(c), **own}, "ffn": gated(c)}

    norm = rmsnorm(c, 1e-5)
    return decoder(c, norm=norm, stack={"placement": "branch"}, layers=each(c, block), tied=False)


def read(c: Ledger) -> Written:
    """Olmo2Config."""
    depth = c.whole(DEPTH)
    return _read(c, [rope(c)] * depth, [None] * depth)


def read3(c: Ledger) -> Written:
    """Olmo3Config. Its older rope_scaling is of the full layers only."""
    types, window = layer_types(c, every(4)), c.stated("sliding_window", 4096)

    def position(layer_type: str) -> Block:
        if "rope_parameters" in c or layer_type == "full_attention":
            return rope(c, layer_type, theta=5e5)
        return {"kind": "rope", "theta": float(c.get("rope_theta", 5e5))}

    windows = [window if layer_type == "sliding_attention" else None for layer_type in types]
    return _read(c, [position(layer_type) for layer_type in types], windows)


_LAYER = (*BRANCH_NORMS, *ATTENTION, *QK_NORM, *GATED)

FAMILIES = (decoder_family("olmo2", read, _LAYER), decoder_family("olmo3", read3, _LAYER))
