"""ELECTRA: BERT with a token table that may be narrower than the model, as the generator with its head or as the body alone."""

from __future__ import annotations

from ..blocks import WIDTH, Written, each, layernorm
from ..config import Ledger
from ..encoders import ROBERTA_LABELS, bert_layer, encoder, encoder_family, pooled
from ..maps import rule
from ..names import BERT_LAYER


def read(c: Ledger) -> Written:
    """ElectraConfig. The head's activation is GELU, whatever the layers have."""
    c.known(position_embedding_type="absolute")
    narrow = c.whole("embedding_size", 128)
    return encoder(
        c,
        norm=layernorm(c, 1e-12),
        embedding={
            "position": "learned",
            "token_types": c.get("type_vocab_size", 2),
            "norm": "layernorm",
            "projection": {"dim": narrow, "of": "sum", "bias": True} if narrow != c.whole(WIDTH) else None,
        },
        layers=each(c, lambda i: bert_layer(c)),
        lm={"transform": {"activation": "gelu"}},
        masked=("ForMaskedLM",),
        texts=pooled("gelu"),
    )


_HEAD = (
    rule("head.dense.*", "generator_predictions.dense.*"),
    rule("head.norm.*", "generator_predictions.LayerNorm.*"),
    rule("head.out.*", "generator_lm_head.*"),
)
FAMILY = encoder_family(
    "electra",
    read,
    BERT_LAYER,
    _HEAD,
    base="electra.",
    labels=ROBERTA_LABELS,
    body=(rule("encoder.embedding.projection.*", "embeddings_project.*"),),
    aside=(
        "discriminator_predictions.dense.*",
        "discriminator_predictions.dense_prediction.*",
        "sequence_summary.summary.*",
    ),
)
