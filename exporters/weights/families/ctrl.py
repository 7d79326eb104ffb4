"""CTRL: tokens times sqrt(width) plus a fixed sinusoid, all sines before all cosines; a bias on the vocabulary."""

from __future__ import annotations

from ..blocks import HEADS, LAYER_EPS, Written, decoder, each
from ..config import Ledger
from ..maps import rule
from ..names import decoder_family


def read(c: Ledger) -> Written:
    """CTRLConfig. Its eps is that of the last norm; the layers' is 1e-6."""
    c.ignore("n_ctx")
    eps = float(c.get(LAYER_EPS, 1e-6))
    block = {
        "attention": {"heads": c.whole(HEADS), "bias": True},
        "ffn": {"kind": "mlp", "width": c.whole("dff"), "activation": "relu", "bias": True},
    }
    return decoder(
        c,
        norm={"kind": "layernorm", "eps": 1e-6},
        embedding={"scale": "sqrt(d_model)", "position": {"kind": "sinusoidal", "layout": "halves"}},
        layers=each(c, lambda i: block),
        stack={"final_norm": {"kind": "layernorm", "eps": eps}} if eps != 1e-6 else None,
        tied=True,
        head={"bias": True},
        length=c.whole("n_positions|max_position_embeddings", 256),
    )


FAMILY = decoder_family(
    "ctrl",
    read,
    (
        rule("attention_input_norm.*", "layernorm1.*"),
        *(rule(f"attention.{x}.*", f"multi_head_attention.W{x}.*") for x in "qkv"),
        rule("attention.o.*", "multi_head_attention.dense.*"),
        rule("ffn_input_norm.*", "layernorm2.*"),
        rule("ffn.up.*", "ffn.0.*"),
        rule("ffn.down.*", "ffn.2.*"),
    ),
    base="transformer.",
    tokens="w",
    layers="h.{i}.",
    final="layernorm",
    buffers=("pos_encoding",),
)
