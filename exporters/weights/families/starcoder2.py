"""StarCoder 2: LayerNorms and biases, a plain feed-forward network, few key heads, the same window in every layer."""

from __future__ import annotations

from ..blocks import Written, decoder, each, grouped, layernorm, mlp
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, PRE_NORMS, decoder_family
from ..rotary import rope


def read(c: Ledger) -> Written:
    """Starcoder2Config."""
    bias = c.get("use_bias", True)
    block = {
        "attention": {
            **grouped(c, kv_heads=2),
            "bias": bias,
            "position": rope(c),
            "window": c.get("sliding_window"),
        },
        "ffn": mlp(c, act="gelu_pytorch_tanh", bias=bias),
    }
    return decoder(c, norm=layernorm(c), layers=each(c, lambda i: block), tied=True)


FAMILY = decoder_family(
    "starcoder2",
    read,
    (*PRE_NORMS, *ATTENTION, rule("ffn.up.*", "mlp.c_fc.*"), rule("ffn.down.*", "mlp.c_proj.*")),
)
