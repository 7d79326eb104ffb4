"""Phi 3 and 4-mini: Llama with one matrix for q, k and v, one for gate and up; windows, longrope, and part of a head turned."""

from __future__ import annotations

from ..blocks import Written, decoder, each, gated, grouped, rmsnorm
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, GATED, PRE_NORMS, decoder_family
from ..rotary import rope
from ..transforms import Fuse


def read(c: Ledger) -> Written:
    """Phi3Config. The context before scaling is said outside the scaling, and 4096 where it is not."""
    position = rope(c)
    original = c.get("original_max_position_embeddings", 4096)
    if position["scaling"]:
        position["scaling"] |= {"original_context": original}
    block = {
        "attention": {**grouped(c), "position": position, "window": c.get("sliding_window")},
        "ffn": gated(c),
    }
    return decoder(c, norm=rmsnorm(c, 1e-5), layers=each(c, lambda i: block), tied=False)


FAMILY = decoder_family(
    "phi3",
    read,
    (
        *PRE_NORMS,
        rule("attention.q.* attention.k.* attention.v.*", "self_attn.qkv_proj.*", Fuse()),
        ATTENTION[3],
        rule("ffn.gate.* ffn.up.*", "mlp.gate_up_proj.*", Fuse()),
        GATED[2],
    ),
)
