"""XLM-RoBERTa XL: RoBERTa with its norms before the sublayers, a last one after them, and none of the embedding's sum."""

from __future__ import annotations

from ..blocks import LENGTH, Written, each, layernorm
from ..config import Ledger
from ..encoders import ROBERTA_HEAD, ROBERTA_LABELS, bert_layer, encoder, encoder_family, pooled
from ..maps import rule
from ..names import BERT_LAYER
from .roberta import embedding


def read(c: Ledger) -> Written:
    """XLMRobertaXLConfig."""
    summed = embedding(c, types=1)
    return encoder(
        c,
        norm=layernorm(c, 1e-5),
        embedding=summed,
        layers=each(c, lambda i: {**bert_layer(c), "placement": "pre"}),
        lm={"transform": {"activation": "gelu"}},
        texts=pooled("tanh"),
        length=c.whole(LENGTH) - summed["position"]["offset"],
    )


_NORMS = (
    rule("attention_input_norm.*", "attention.self_attn_layer_norm.*"),
    rule("ffn_input_norm.*", "LayerNorm.*"),
)
FAMILY = encoder_family(
    "xlm_roberta_xl",
    read,
    (*BERT_LAYER, *_NORMS),
    ROBERTA_HEAD,
    types=("xlm-roberta-xl",),
    base="roberta.",
    labels=ROBERTA_LABELS,
    body=(rule("encoder.final_norm.*", "encoder.LayerNorm.*"),),
)
