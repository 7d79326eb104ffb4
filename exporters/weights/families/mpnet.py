"""MPNet: BERT without token types, whose positions count tokens alone and whose scores also know distances, as T5's."""

from __future__ import annotations

from ..blocks import LENGTH, Block, Written, each, layernorm
from ..config import Ledger
from ..encoders import ROBERTA_HEAD, ROBERTA_LABELS, bert_layer, encoder, encoder_family, pooled
from ..maps import rule

#: Rows before the first position: the pad id is always 1.
_BEFORE = 2


def read(c: Ledger) -> Written:
    """MPNetConfig. The head's activation is GELU, whatever the layers have; its buckets are no key."""
    c.known(pad_token_id=_BEFORE - 1, relative_attention_num_buckets=32)
    position = {"kind": "relative_buckets", "buckets": 32, "max_distance": 128, "table": "per_stack"}

    def block(i: int) -> Block:
        layer = bert_layer(c)
        return {**layer, "attention": {**layer["attention"], "position": position}}

    return encoder(
        c,
        norm=layernorm(c, 1e-12),
        embedding={
            "position": {"kind": "learned", "offset": _BEFORE, "count": "unpadded"},
            "norm": "layernorm",
        },
        layers=each(c, block),
        lm={"transform": {"activation": "gelu"}},
        texts=pooled("tanh"),
        length=c.whole(LENGTH) - _BEFORE,
    )


_LAYER = (
    *(rule(f"attention.{x}.*", f"attention.attn.{x}.*") for x in "qkvo"),
    rule("attention_outer_norm.*", "attention.LayerNorm.*"),
    rule("ffn.up.*", "intermediate.dense.*"),
    rule("ffn.down.*", "output.dense.*"),
    rule("ffn_outer_norm.*", "output.LayerNorm.*"),
)
FAMILY = encoder_family(
    "mpnet",
    read,
    _LAYER,
    ROBERTA_HEAD,
    base="mpnet.",
    labels=ROBERTA_LABELS,
    body=(rule("encoder.layers.0.attention.table.weight", "encoder.relative_attention_bias.weight"),),
)
