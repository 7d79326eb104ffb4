"""ModernBERT: no norm before the first attention, windows, a rotation by layer type, a gated ffn, BERT's kind of head."""

from __future__ import annotations

from typing import Any

from ..blocks import Block, Written, activation, each, gated, layer_types
from ..config import Ledger
from ..encoders import encoder, encoder_family
from ..maps import rule
from ..rotary import rope
from ..transforms import Fuse


def read(c: Ledger) -> Written:
    """ModernBertConfig. A token sees half of `local_attention` on either side."""
    c.ignore("sparse_prediction", "sparse_pred_ignore_index")  # while training: which tokens the loss is of
    rates = {
        "embedding": c.get("embedding_dropout", 0.0),
        "attention": c.get("attention_dropout", 0.0),
        "ffn": c.get("mlp_dropout", 0.0),
    }
    return encoder(
        c, norm=norm(c), embedding={"norm": "layernorm"}, layers=layers(c), lm=lm(c), masked=("ForMaskedLM",),
        texts=_labels(c, {"cls": "first", "mean": "mean"}[c.get("classifier_pooling", "cls")]), tokens=_labels(c, "tokens"),
        rates=rates,
    )  # fmt: skip


def norm(c: Ledger) -> Block:
    """LayerNorm, as norm_eps and norm_bias say it."""
    return {"kind": "layernorm", "eps": float(c.get("norm_eps", 1e-5)), "bias": c.get("norm_bias", False)}


def layers(c: Ledger) -> list[Block]:
    """Layers with windows of half of `local_attention`, but every third; windows have a theta of their own."""
    period, window = c.whole("global_attn_every_n_layers", 3), c.whole("local_attention", 128) // 2
    c.known(sliding_window=window)
    c.ignore("layer_norm_eps", "position_embedding_type")  # norm_eps and the rotations say it
    c.ignore("reference_compile", "repad_logits_with_grad", "deterministic_flash_attn")
    types = layer_types(c, lambda i: "sliding_attention" if i % period else "full_attention")
    theta = {
        "full_attention": c.get("global_rope_theta", 160000.0),
        "sliding_attention": c.get("local_rope_theta", 10000.0),
    }

    def block(i: int) -> Block:
        attention = {
            "heads": c.whole("num_attention_heads"),
            "bias": c.get("attention_bias", False),
            "position": rope(c, types[i], theta=theta[types[i]]),
            "window": window if types[i] == "sliding_attention" else None,
            "placement": None if i else "none",
        }
        return {"attention": attention, "ffn": gated(c, act="gelu", bias=c.get("mlp_bias", False))}

    return each(c, block)


def lm(c: Ledger) -> dict[str, Any]:
    """The head over the vocabulary."""
    return {
        "bias": c.get("decoder_bias", True),
        "transform": {
            "activation": activation(c.get("classifier_activation", "gelu")),
            "bias": c.get("classifier_bias", False),
        },
    }


def _labels(c: Ledger, pool: str) -> Block:
    """A classifier reads through the dense layer and the norm that the head over the vocabulary has."""
    return {"pool": pool, "transform": {**lm(c)["transform"], "norm": "layernorm"}}


_LAYER = (
    rule("attention_input_norm.*", "attn_norm.*"),
    rule("attention.q.* attention.k.* attention.v.*", "attn.Wqkv.*", Fuse()),
    rule("attention.o.*", "attn.Wo.*"),
    rule("ffn_input_norm.*", "mlp_norm.*"),
    rule("ffn.gate.* ffn.up.*", "mlp.Wi.*", Fuse()),
    rule("ffn.down.*", "mlp.Wo.*"),
)
_HEAD = (
    rule("head.dense.*", "head.dense.*"),
    rule("head.norm.*", "head.norm.*"),
    rule("head.out.*", "decoder.*"),
)
FAMILY = encoder_family(
    "modernbert",
    read,
    _LAYER,
    _HEAD,
    base="model.",
    layers="layers.{i}.",
    body=(
        rule("encoder.embedding.tokens.weight", "embeddings.tok_embeddings.weight"),
        rule("encoder.embedding.norm.*", "embeddings.norm.*"),
        rule("encoder.final_norm.*", "final_norm.*"),
    ),
    labels=_HEAD[:2],
)
