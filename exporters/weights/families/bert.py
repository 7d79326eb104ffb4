"""BERT, with its masked-language head, its pooler, a label on every token, or none of them."""

from __future__ import annotations

from archspec.ops.model import Model

from ..blocks import Written, each, layernorm
from ..config import Ledger
from ..encoders import BERT_HEAD, bert_layer, config_of, encoder, encoder_family, pooled
from ..names import BERT_LAYER


def read(c: Ledger) -> Written:
    """BertConfig."""
    c.known(position_embedding_type="absolute")
    c.ignore("directionality", *(f"pooler_{x}" for x in ("fc_size", "num_attention_heads", "num_fc_layers", "type")))
    c.ignore("pooler_size_per_head")  # as the keys before, of the first BERTs in many languages: no class has read them
    layers = each(c, lambda i: bert_layer(c))
    return encoder(
        c,
        norm=layernorm(c, 1e-12),
        embedding={"position": "learned", "token_types": c.get("type_vocab_size", 2), "norm": "layernorm"},
        layers=layers,
        lm={"transform": {"activation": layers[0]["ffn"]["activation"]}},
        texts=pooled("tanh"),
    )


def write(model: Model, context_length: int | None) -> Written:
    """BertConfig of a model."""
    return config_of(model, "bert", "Bert")


FAMILY = encoder_family("bert", read, BERT_LAYER, BERT_HEAD, base="bert.", write=write)
