"""Granite with experts: four constants on the embedding, scores, branches and logits; a softmax over the chosen experts.

The expert that every token takes may be missing, which makes it a plain GraniteMoe.
"""

from __future__ import annotations

from ..blocks import Block, Written, decoder, each, gated, grouped, moe, rmsnorm
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, PRE_NORMS, decoder_family, experts
from ..rotary import rope
from ..transforms import Fuse

#: Fused gate and up, stacked experts: as modules of transformers name them, and as the first checkpoints did.
EXPERTS = (
    *experts("block_sparse_moe.", router="router"),
    rule("ffn.router.weight", "block_sparse_moe.router.layer.weight"),
    rule("ffn.expert.gate.weight ffn.expert.up.weight", "block_sparse_moe.input_linear.weight", Fuse(1)),
    rule("ffn.expert.down.weight", "block_sparse_moe.output_linear.weight"),
    rule("ffn.shared.gate.weight ffn.shared.up.weight", "shared_mlp.input_linear.weight", Fuse()),
    rule("ffn.shared.down.weight", "shared_mlp.output_linear.weight"),
)


def attention(c: Ledger) -> Block:
    """Grouped heads whose scores have a constant of their own."""
    return {
        **grouped(c),
        "bias": c.get("attention_bias", False),
        "scale": float(c.get("attention_multiplier", 1.0)),
    }


def whole(c: Ledger, attentions: list[Block]) -> Written:
    """A model with these attentions, first layer to last."""
    ffn = moe(c, gated(c), {"normalize": True}, shared=c.get("shared_intermediate_size", 0))
    divisor = float(c.get("logits_scaling", 1.0))
    return decoder(
        c,
        norm=rmsnorm(c),
        embedding={"scale": float(c.get("embedding_multiplier", 1.0))},
        stack={"residual": {"branch_scale": float(c.get("residual_multiplier", 1.0))}},
        layers=[{"attention": a, "ffn": ffn} for a in attentions],
        head={"scale": f"1/{divisor:.12g}" if divisor != 1.0 else None},
        tied=False,
    )


def read(c: Ledger) -> Written:
    """GraniteMoeSharedConfig."""
    own = {**attention(c), "position": rope(c)}
    return whole(c, each(c, lambda i: own))


FAMILY = decoder_family("granitemoeshared", read, (*PRE_NORMS, *ATTENTION, *EXPERTS))
