"""ALBERT: BERT whose layers share one set of weights, with a token table that is narrower than the model."""

from __future__ import annotations

from ..blocks import DEPTH, Written, layernorm
from ..config import Ledger
from ..encoders import bert_layer, encoder, encoder_family, pooled
from ..maps import rule


def read(c: Ledger) -> Written:
    """AlbertConfig."""
    c.known(position_embedding_type="absolute", num_hidden_groups=1, inner_group_num=1)
    c.ignore("down_scale_factor", "gap_size", "layers_to_keep", "net_structure_type", "num_memory_blocks")
    layer = bert_layer(c, act="gelu_new")
    return encoder(
        c,
        norm=layernorm(c, 1e-12),
        embedding={
            "position": "learned",
            "token_types": c.get("type_vocab_size", 2),
            "norm": "layernorm",
            "projection": {"dim": c.whole("embedding_size", 128), "of": "sum", "bias": True},
        },
        layers=[layer],
        stack={"layers": [{"repeat": c.whole(DEPTH), "weights": "shared"}]},
        lm={"transform": {"activation": layer["ffn"]["activation"]}},
        texts=pooled("tanh"),
    )


_LAYER = (
    rule("attention.q.*", "attention.query.*"),
    rule("attention.k.*", "attention.key.*"),
    rule("attention.v.*", "attention.value.*"),
    rule("attention.o.*", "attention.dense.*"),
    rule("attention_outer_norm.*", "attention.LayerNorm.*"),
    rule("ffn.up.*", "ffn.*"),
    rule("ffn.down.*", "ffn_output.*"),
    rule("ffn_outer_norm.*", "full_layer_layer_norm.*"),
)
_HEAD = (
    rule("head.dense.*", "predictions.dense.*"),
    rule("head.norm.*", "predictions.LayerNorm.*"),
    rule("head.out.weight", "predictions.decoder.weight"),
    rule("head.out.bias", "predictions.bias", copies="predictions.decoder.bias"),
)
FAMILY = encoder_family(
    "albert",
    read,
    _LAYER,
    _HEAD,
    base="albert.",
    layers="encoder.albert_layer_groups.0.albert_layers.0.",
    body=(rule("encoder.embedding.projection.*", "encoder.embedding_hidden_mapping_in.*"),),
    pooler="pooler",
    aside=("sop_classifier.classifier.*",),
)
