"""Gemma 2: norms on both sides of a sublayer, softcaps, a window in every other layer. VaultGemma: without the outer norms."""

from __future__ import annotations

from ..blocks import Block, Written, decoder, each, every, gated, grouped, inverse_root, layer_types, rmsnorm
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, GATED, SANDWICH_NORMS, decoder_family
from ..rotary import rope
from .gemma import scaled


def attention(c: Ledger, window: int | None) -> Block:
    """One layer's, without its position."""
    return {
        **grouped(c, kv_heads=4, head_dim=256),
        "bias": c.get("attention_bias", False),
        "scale": inverse_root(c.get("query_pre_attn_scalar", 256)),
        "window": window,
    }


def blocks(c: Ledger) -> list[Block]:
    """Each layer, without its norms."""
    window, types = c.stated("sliding_window", 4096), layer_types(c, every(2))
    cap = c.stated("attn_logit_softcapping", 50.0)

    def block(i: int) -> Block:
        own = attention(c, window if types[i] == "sliding_attention" else None)
        position = rope(c, head_dim=c.whole("head_dim", 256))
        return {
            "attention": {**own, "softcap": cap, "position": position},
            "ffn": gated(c, act="gelu_pytorch_tanh", key="hidden_activation"),
        }

    return each(c, block)


def read(c: Ledger, placement: str = "sandwich") -> Written:
    """Gemma2Config."""
    c.known(use_bidirectional_attention=False)
    c.ignore("hidden_act")  # the class reads hidden_activation
    return decoder(
        c, norm=rmsnorm(c, weight="1+w"), embedding=scaled(c), stack={"placement": placement}, layers=blocks(c),
        head={"softcap": c.stated("final_logit_softcapping", 30.0)}, tied=True,
    )  # fmt: skip


def read_vaultgemma(c: Ledger) -> Written:
    """VaultGemmaConfig."""
    return read(c, "pre")


_INPUT_NORMS = (
    rule("attention_input_norm.*", "input_layernorm.*"),
    rule("ffn_input_norm.*", "pre_feedforward_layernorm.*"),
)

FAMILIES = (
    decoder_family("gemma2", read, (*SANDWICH_NORMS, *ATTENTION, *GATED)),
    decoder_family("vaultgemma", read_vaultgemma, (*_INPUT_NORMS, *ATTENTION, *GATED)),
)
