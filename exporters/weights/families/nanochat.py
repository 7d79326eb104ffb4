"""nanochat: norms without weights, one on the embedding and one a head after the rotation, which turns the other way."""

from __future__ import annotations

from ..blocks import Written, decoder, each, grouped, mlp, rmsnorm
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, decoder_family
from ..rotary import rope
from ..transforms import SwapHalves


def read(c: Ledger) -> Written:
    """NanoChatConfig."""
    attention = {
        **grouped(c),
        "bias": c.get("attention_bias", False),
        "position": rope(c),
        "qk_norm": {"over": "head", "order": "after_rope"},
    }
    block = {"attention": attention, "ffn": mlp(c, act="relu2", bias=False)}
    return decoder(
        c,
        norm=rmsnorm(c, weight="none"),
        embedding={"norm": "rmsnorm"},
        layers=each(c, lambda i: block),
        head={"softcap": c.stated("final_logit_softcapping", 15.0)},
        tied=False,
    )


FAMILY = decoder_family(
    "nanochat",
    read,
    (
        rule("attention.q.*", "self_attn.q_proj.*", SwapHalves()),
        rule("attention.k.*", "self_attn.k_proj.*", SwapHalves()),
        *ATTENTION[2:],
        rule("ffn.up.*", "mlp.fc1.*"),
        rule("ffn.down.*", "mlp.fc2.*"),
    ),
)
