"""Falcon: one key for all heads under one norm (7B), keys in groups under two (40B, 180B), or ALiBi one after the other (RW)."""

from __future__ import annotations

from archspec.errors import WeightsError

from ..blocks import HEADS, WIDTH, Written, decoder, each, layernorm, mlp
from ..config import Ledger
from ..entries import Block
from ..maps import rule
from ..names import PRE_NORMS, decoder_family
from ..rotary import rope
from ..transforms import FuseGroups


def read(c: Ledger) -> Written:
    """FalconConfig. transformers rounds the ALiBi bias to bfloat16 in any dtype; here it is exact."""
    c.known(apply_residual_connection_post_layernorm=False, ff_factor=4)
    heads, bias = c.whole(HEADS), c.get("bias", False)
    kv = _keys(c, heads)
    block = {
        "parallel": _parallel(c),
        "attention": {
            "heads": heads,
            "kv_heads": kv if kv != heads else None,
            "bias": bias,
            "position": _position(c, c.whole(WIDTH) // heads),
        },
        "ffn": mlp(c, act="gelu", bias=bias),
    }
    return decoder(c, norm=layernorm(c), layers=each(c, lambda i: block), tied=True)


def _keys(c: Ledger, heads: int) -> int:
    """Key heads: num_kv_heads counts in the new form alone."""
    stated, one = c.whole("num_kv_heads", heads), c.get("multi_query", True)
    if c.get("new_decoder_architecture", False):
        return stated
    if not one and stated != heads:
        raise WeightsError(f"the config has num_kv_heads: {stated}, which its form does not use.")
    return 1 if one else heads


def _parallel(c: Ledger) -> str | None:
    """`parallel`, and nothing where attention and ffn follow each other."""
    new, side_by_side = c.get("new_decoder_architecture", False), c.get("parallel_attn", True)
    norms = c.get("num_ln_in_parallel_attn", 2 if new else 1)
    if norms not in ((1, 2) if new else (1,)) or (new and not side_by_side):
        raise WeightsError(f"the config has num_ln_in_parallel_attn: {norms}, which its form does not have.")
    return ("two_norms" if norms == 2 else "one_norm") if side_by_side else None


def _position(c: Ledger, head_dim: int) -> Block:
    if not c.get("alibi", False):
        return rope(c, head_dim=head_dim)
    c.ignore("rope_parameters", "rope_theta", "rope_scaling")
    return {"kind": "alibi", "order": "before_scale"}


FAMILY = decoder_family(
    "falcon",
    read,
    (
        rule("input_norm.*", "input_layernorm.*"),
        rule("attention_input_norm.*", "ln_attn.*"),
        rule("ffn_input_norm.*", "ln_mlp.*"),
        *PRE_NORMS,
        rule("attention.q.* attention.k.* attention.v.*", "self_attention.query_key_value.*", FuseGroups("kv_heads")),
        rule("attention.o.*", "self_attention.dense.*"),
        rule("ffn.up.*", "mlp.dense_h_to_4h.*"),
        rule("ffn.down.*", "mlp.dense_4h_to_h.*"),
    ),
    base="transformer.",
    tokens="word_embeddings",
    layers="h.{i}.",
    final="ln_f",
    buffers=("h.{i}.self_attention.rotary_emb.inv_freq",),
)
