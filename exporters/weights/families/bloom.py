"""BLOOM: ALiBi, a norm on the embedding, q k v head by head."""

from __future__ import annotations

from ..blocks import HEADS, WIDTH, Written, decoder, each, layernorm
from ..config import Ledger
from ..maps import rule
from ..names import PRE_NORMS, decoder_family
from ..transforms import FuseGroups


def read(c: Ledger) -> Written:
    """BloomConfig; `seq_length` is in published ones, and no table depends on it."""
    c.known(apply_residual_connection_post_layernorm=False)
    c.ignore("slow_but_exact", "n_inner", "attention_softmax_in_fp32", "masked_softmax_fusion", "bias_dropout_fusion")
    c.ignore("offset_alibi", "skip_bias_add", "skip_bias_add_qkv")
    block = {
        "attention": {"heads": c.whole(HEADS), "bias": True, "position": "alibi"},
        "ffn": {"kind": "mlp", "width": 4 * c.whole(WIDTH), "activation": "gelu_tanh_8", "bias": True},
    }
    norm, length = layernorm(c), c.get("seq_length")
    embedding = {"norm": "layernorm"}
    return decoder(c, norm=norm, embedding=embedding, layers=each(c, lambda i: block), tied=True, length=length)


FAMILY = decoder_family(
    "bloom",
    read,
    (
        *PRE_NORMS,
        rule("attention.q.* attention.k.* attention.v.*", "self_attention.query_key_value.*", FuseGroups("heads")),
        rule("attention.o.*", "self_attention.dense.*"),
        rule("ffn.up.*", "mlp.dense_h_to_4h.*"),
        rule("ffn.down.*", "mlp.dense_4h_to_h.*"),
    ),
    base="transformer.",
    tokens="word_embeddings",
    layers="h.{i}.",
    final="ln_f",
    body=(rule("decoder.embedding.norm.*", "word_embeddings_layernorm.*"),),
)
