"""DeBERTa, and versions 2 and 3 with log-spaced buckets: BERT whose scores compare contents with distances."""

from __future__ import annotations

from typing import Any

from archspec.errors import WeightsError

from ..blocks import HEADS, LENGTH, WIDTH, Block, Written, activation, each, layernorm
from ..config import Ledger, shown
from ..encoders import BERT_HEAD, bert_layer, encoder, encoder_family, pooled
from ..maps import rule
from ..names import BERT_LAYER
from ..transforms import FuseGroups


def read_v1(c: Ledger) -> Written:
    """DebertaConfig: a row for each distance, linears of its own for them, and no bias of k."""
    c.known(talking_head=False)
    return _read(c, {"bias": ["q", "v", "o"]}, {})


def read_v2(c: Ledger) -> Written:
    """DebertaV2Config."""
    c.known(conv_kernel_size=0)
    attention = {"bias": True, "head_dim": c.get("attention_head_size", None)}
    position: Block = {
        "projections": "shared" if c.get("share_att_key", False) else "own",
        "norm": "layernorm" if "layer_norm" in _words(c.get("norm_rel_ebd", "none")) else None,
    }
    return _read(c, attention, position, c.get("position_buckets", -1))


def _read(c: Ledger, attention: Block, position: Block, buckets: int = -1) -> Written:
    c.ignore("legacy", "pooler_hidden_size", "pooler_dropout")  # of heads
    c.ignore("max_relative_positions", "position_buckets")  # where no attention is relative
    width, narrow = c.whole(WIDTH), c.whole("embedding_size", c.whole(WIDTH))
    relative = _distances(c, buckets) | position if c.get("relative_attention", False) else None
    terms = _words(c.get("pos_att_type", None))
    if terms and relative is None:  # scores would be scaled as sums, and are none
        raise WeightsError(f"the config has pos_att_type: {shown(terms)}, and no relative_attention.")
    summed, types = c.get("position_biased_input", True), c.get("type_vocab_size", 0)
    if narrow != width and (summed or types):
        raise WeightsError(f"the config has embedding_size: {narrow}, of other tables than that of tokens too.")
    layer = bert_layer(c)
    layer["attention"] = {"heads": c.whole(HEADS), "position": relative, **attention}
    return encoder(
        c,
        norm=layernorm(c, 1e-7),
        embedding={
            "position": "learned" if summed else None,
            "token_types": types,
            "norm": "layernorm",
            "projection": {"dim": narrow, "of": "tokens", "bias": False} if narrow != width else None,
        },
        layers=each(c, lambda i: layer),
        lm={"transform": {"activation": layer["ffn"]["activation"]}},
        texts=pooled(activation(c.get("pooler_hidden_act", "gelu"))),
    )


def _distances(c: Ledger, buckets: int) -> Block:
    """Terms and rows: a bucket for each distance, or so many buckets."""
    terms, far = _words(c.get("pos_att_type", None)), c.get("max_relative_positions", -1)
    if sorted(terms) not in (["c2p"], ["p2c"], ["c2p", "p2c"]):
        raise WeightsError(f"the config has pos_att_type: {shown(terms)}, where c2p, p2c or both are meant.")
    far = far if far >= 1 else c.whole(LENGTH)
    rows = {"buckets": buckets, "max_distance": far} if buckets > 0 else {"buckets": far}
    return {"kind": "disentangled", "terms": sorted(terms), **rows}


def _words(value: object) -> list[str]:
    """`c2p|p2c`, or a list of such words."""
    if isinstance(value, list):
        return [str(word) for word in value]
    return [word.strip() for word in str(value or "").lower().split("|") if word.strip()]


_TABLE = (
    rule("encoder.layers.0.attention.distances.table.weight", "encoder.rel_embeddings.weight"),
    rule("encoder.layers.0.attention.distances.norm.*", "encoder.LayerNorm.*"),
    rule("encoder.embedding.projection.weight", "embeddings.embed_proj.weight"),
)
#: The masked-language head of BERT, or the one that the checkpoints of Microsoft have.
_HEAD = (
    *BERT_HEAD,
    rule("head.dense.*", "lm_predictions.lm_head.dense.*"),
    rule("head.norm.*", "lm_predictions.lm_head.LayerNorm.*"),
    rule("head.out.bias", "lm_predictions.lm_head.bias"),
)
_REST = tuple(r for r in BERT_LAYER if not r.theirs[0].startswith("attention.self."))
_V1 = (
    rule(
        "attention.q.weight attention.k.weight attention.v.weight", "attention.self.in_proj.weight", FuseGroups("heads")
    ),
    rule("attention.q.bias", "attention.self.q_bias"),
    rule("attention.v.bias", "attention.self.v_bias"),
    rule("attention.distance_q.*", "attention.self.pos_q_proj.*"),
    rule("attention.distance_k.*", "attention.self.pos_proj.*"),
    *_REST,
)
_V2 = (
    rule("attention.q.*", "attention.self.query_proj.*"),
    rule("attention.k.*", "attention.self.key_proj.*"),
    rule("attention.v.*", "attention.self.value_proj.*"),
    rule("attention.distance_q.*", "attention.self.pos_query_proj.*"),
    rule("attention.distance_k.*", "attention.self.pos_key_proj.*"),
    *_REST,
)
_COMMON: dict[str, Any] = {
    "base": "deberta.",
    "body": _TABLE,
    "labels": (rule("head.dense.*", "pooler.dense.*"),),
    "aside": ("lm_predictions.{path}", "mask_predictions.{path}"),
}
FAMILIES = (
    encoder_family("deberta", read_v1, _V1, _HEAD, **_COMMON),
    encoder_family("deberta_v2", read_v2, _V2, _HEAD, types=("deberta-v2",), **_COMMON),
)
