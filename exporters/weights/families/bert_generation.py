"""BERT as a decoder that generates, without a transform before its head."""

from __future__ import annotations

from dataclasses import replace

from archspec.errors import WeightsError

from ..blocks import HEADS, Written, decoder, each, layernorm, mlp
from ..config import Ledger
from ..maps import rule
from ..names import BERT_LAYER, decoder_family


def read(c: Ledger) -> Written:
    """BertGenerationConfig of a decoder."""
    if not c.get("is_decoder", False):
        raise WeightsError("the config has is_decoder: false, where this map has decoders only.")
    block = {"placement": "post", "attention": {"heads": c.whole(HEADS), "bias": True}, "ffn": mlp(c, act="gelu")}
    return decoder(
        c,
        norm=layernorm(c, 1e-12),
        embedding={"position": "learned", "norm": "layernorm"},
        layers=each(c, lambda i: block),
        head={"bias": True},
        tied=True,
    )


FAMILY = replace(
    decoder_family(
        "bert_generation",
        read,
        BERT_LAYER,
        types=("bert-generation",),
        base="bert.",
        tokens="embeddings.word_embeddings",
        layers="encoder.layer.{i}.",
        body=(
            rule("decoder.embedding.positions.weight", "embeddings.position_embeddings.weight"),
            rule("decoder.embedding.norm.*", "embeddings.LayerNorm.*"),
        ),
        buffers=("embeddings.position_ids",),
        aside=("lm_head.bias",),  # an untied head has its bias in its linear, and this one lies idle
    ),
    heads={
        "lm": (
            rule("head.out.weight", "lm_head.decoder.weight"),
            rule("head.out.bias", "lm_head.decoder.bias"),
            rule("head.out.bias", "lm_head.bias"),
        )
    },
)
