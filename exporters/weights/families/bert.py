"""BERT, with its masked-language head, its pooler, or neither."""

from __future__ import annotations

from archspec.ops.head import NoHead, PoolerHead
from archspec.ops.model import Model

from ..blocks import HEADS, LENGTH, WIDTH, Written, dropout, each, layernorm, mlp, said
from ..config import Ledger
from ..entries import stacked
from ..maps import Family, rule, under
from ..names import BERT_LAYER
from ..write import activation_name, config, eps, layers


def read(c: Ledger) -> Written:
    """BertConfig, with the masked-language head."""
    c.known(position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    ffn = mlp(c, act="gelu")
    block = {"placement": "post", "attention": {"heads": c.whole(HEADS), "bias": True}, "ffn": ffn}
    written = {
        "vocab_size": c.whole("vocab_size"),
        "context_length": c.whole(LENGTH),
        "d_model": c.whole(WIDTH),
        "norm": layernorm(c, 1e-12),
        "embedding": {"position": "learned", "token_types": c.get("type_vocab_size", 2), "norm": "layernorm"},
        "encoder": stacked(each(c, lambda i: block)),
        "head": {
            "tied": c.get("tie_word_embeddings", True),
            "bias": True,
            "transform": {"activation": ffn["activation"]},
        },
        "dropout": dropout(c),
    }
    return said("top", written)


def write(model: Model, context_length: int | None) -> Written:
    """BertConfig of a model."""
    parts = layers(model, "bert")
    values = {
        "max_position_embeddings": parts.rows,
        "hidden_size": parts.stack.embedding.width,
        "num_hidden_layers": len(parts.stack.layers),
        "num_attention_heads": parts.attention.heads,
        "intermediate_size": parts.ffn.hidden,
        "hidden_act": activation_name(parts.ffn.activation),
        "layer_norm_eps": eps(parts.stack.embedding.norm),
        "type_vocab_size": parts.stack.embedding.token_types,
        "hidden_dropout_prob": parts.stack.embedding.dropout,
        "attention_probs_dropout_prob": parts.attention.scores.dropout,
    }
    if isinstance(model.head, NoHead | PoolerHead):
        values["tie_word_embeddings"] = True  # as BertConfig says it where it ties nothing
    return config(model, "bert", "Bert", "ForMaskedLM", values)


FAMILY = Family(
    name="bert",
    read=read,
    write=write,
    types=("bert",),
    base="bert.",
    body=(
        rule("encoder.embedding.tokens.weight", "embeddings.word_embeddings.weight"),
        rule("encoder.embedding.positions.weight", "embeddings.position_embeddings.weight"),
        rule("encoder.embedding.types.weight", "embeddings.token_type_embeddings.weight"),
        rule("encoder.embedding.norm.*", "embeddings.LayerNorm.*"),
        *under("encoder.layers.{i}.", "encoder.layer.{i}.", BERT_LAYER),
    ),
    heads={
        "lm": (
            rule("head.dense.*", "cls.predictions.transform.dense.*"),
            rule("head.norm.*", "cls.predictions.transform.LayerNorm.*"),
            rule("head.out.weight", "cls.predictions.decoder.weight"),
            rule("head.out.bias", "cls.predictions.bias", copies="cls.predictions.decoder.bias"),
        ),
        "pooler": (rule("head.dense.*", "{base}pooler.dense.*"),),
    },
    buffers=("embeddings.position_ids", "embeddings.token_type_ids"),
    aside=("cls.seq_relationship.*",),
)
