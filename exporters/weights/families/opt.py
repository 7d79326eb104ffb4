"""OPT, with the 350M model's norms after the sum and its narrow token table, and Galactica without biases."""

from __future__ import annotations

from archspec.errors import WeightsError

from ..blocks import HEADS, WIDTH, Written, decoder, each, mlp
from ..config import Ledger
from ..maps import rule
from ..names import FAIRSEQ_LAYER, decoder_family


def read(c: Ledger) -> Written:
    """OPTConfig. Norms have eps 1e-5 whatever it says; positions are those among unpadded tokens, two rows further on."""
    width, narrow = c.whole(WIDTH), c.get("word_embed_proj_dim")
    narrow = narrow if narrow != width else None
    if narrow and not c.get("tie_word_embeddings", True):
        raise WeightsError(
            "the config has word_embed_proj_dim and a head of its own, which the language does not have."
        )
    bias, affine = c.get("enable_bias", True), c.get("layer_norm_elementwise_affine", True)
    pre = c.get("do_layer_norm_before", True)
    removed = c.get("_remove_final_layer_norm", False) and pre
    block = {
        "placement": "pre" if pre else "post",
        "attention": {"heads": c.whole(HEADS), "bias": bias},
        "ffn": mlp(c, act="relu", bias=bias),
    }
    written = decoder(
        c,
        norm={"kind": "layernorm", "eps": 1e-5, "weight": "w" if affine else "none", "bias": affine},
        embedding={
            "position": {"kind": "learned", "offset": 2, "count": "unpadded"},
            "projection": {"dim": narrow, "of": "tokens", "bias": False} if narrow else None,
        },
        layers=each(c, lambda i: block),
        stack={"final_norm": "none"} if removed else None,
        tied=True,
    )
    rate = float(c.get("dropout", 0.1))
    return written | {"dropout": {**written.get("dropout", {}), "residual": rate}} if rate else written


FAMILY = decoder_family(
    "opt",
    read,
    FAIRSEQ_LAYER,
    tokens="decoder.embed_tokens",
    layers="decoder.layers.{i}.",
    final="decoder.final_layer_norm",
    body=(
        rule("decoder.embedding.positions.weight", "decoder.embed_positions.weight"),
        rule("decoder.embedding.projection.weight", "decoder.project_in.weight"),
        rule("head.projection.weight", "decoder.project_out.weight"),
    ),
)
