"""DistilBERT: BERT without token types, in names of its own."""

from __future__ import annotations

from archspec.ops.model import Model

from ..blocks import ACTIVATION, HEADS, WIDTH, Block, Written, activation, each
from ..config import Ledger
from ..encoders import encoder, encoder_family, headed, pooled
from ..maps import rule
from ..write import activation_name, layers


def read(c: Ledger) -> Written:
    """DistilBertConfig. The eps of its norms is no key."""
    c.ignore("sinusoidal_pos_embds")  # what the table of positions begins as
    c.known(tie_weights_=True)
    width, act = c.whole(f"dim|{WIDTH}"), activation(c.get(ACTIVATION, "gelu"))
    ffn = {"kind": "mlp", "width": c.whole("hidden_dim", 4 * width), "activation": act, "bias": True}
    block: Block = {"placement": "post", "attention": {"heads": c.whole(HEADS), "bias": True}, "ffn": ffn}
    rate = c.get("dropout", 0.1)
    return encoder(
        c,
        norm={"kind": "layernorm", "eps": 1e-12},
        embedding={"position": "learned", "norm": "layernorm"},
        layers=each(c, lambda i: block),
        lm={"transform": {"activation": act}},
        texts=pooled("relu"),
        width=width,
        rates={"embedding": rate, "attention": c.get("attention_dropout", 0.1), "residual": rate},
    )


def write(model: Model, context_length: int | None) -> Written:
    """DistilBertConfig of a model."""
    parts = layers(model, "distilbert")
    values = {
        "max_position_embeddings": parts.rows,
        "dim": parts.stack.embedding.width,
        "n_layers": len(parts.stack.layers),
        "n_heads": parts.attention.heads,
        "hidden_dim": parts.ffn.hidden,
        "activation": activation_name(parts.ffn.activation),
        "dropout": parts.stack.embedding.dropout,
        "attention_dropout": parts.attention.scores.dropout,
    }
    return headed(model, "distilbert", "DistilBert", values)


_LAYER = (
    *(rule(f"attention.{x}.*", f"attention.{x}_lin.*") for x in "qkv"),
    rule("attention.o.*", "attention.out_lin.*"),
    rule("attention_outer_norm.*", "sa_layer_norm.*"),
    rule("ffn.up.*", "ffn.lin1.*"),
    rule("ffn.down.*", "ffn.lin2.*"),
    rule("ffn_outer_norm.*", "output_layer_norm.*"),
)
_HEAD = (
    rule("head.dense.*", "vocab_transform.*"),
    rule("head.norm.*", "vocab_layer_norm.*"),
    rule("head.out.*", "vocab_projector.*"),
)
FAMILY = encoder_family(
    "distilbert",
    read,
    _LAYER,
    _HEAD,
    base="distilbert.",
    layers="transformer.layer.{i}.",
    labels=(rule("head.dense.*", "pre_classifier.*"),),
    write=write,
)
