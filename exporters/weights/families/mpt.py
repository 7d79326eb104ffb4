"""MPT: ALiBi and no bias anywhere."""

from __future__ import annotations

from archspec.errors import WeightsError

from ..blocks import HEADS, WIDTH, Written, decoder, each, layernorm
from ..config import Ledger
from ..entries import Block
from ..maps import rule
from ..names import decoder_family
from ..transforms import Fuse


def read(c: Ledger) -> Written:
    """MptConfig. alibi_bias_max is what was trained with; transformers takes 8 whatever it says."""
    c.known(no_bias=True, expansion_ratio=4, logit_scale=None)
    c.ignore("learned_pos_emb", "embedding_fraction", "verbose", "tokenizer_name")
    if c.get("norm_type", "low_precision_layernorm") not in ("layernorm", "low_precision_layernorm"):
        raise WeightsError(f"the config has norm_type: {c['norm_type']}, which this map does not carry.")
    block = {
        "attention": _attention(c, c.part("attn_config")),
        "ffn": {"kind": "mlp", "width": 4 * c.whole(WIDTH), "activation": "gelu"},
    }
    return decoder(c, norm=layernorm(c, bias=False), layers=each(c, lambda i: block), tied=True)


def _attention(c: Ledger, a: Ledger) -> Block:
    a.known(attn_type="multihead_attention", prefix_lm=False, qk_ln=False, attn_uses_sequence_id=False, alibi=True)
    a.ignore("attn_impl")
    clip = a.get("clip_qkv")
    return {
        "heads": c.whole(HEADS),
        "clip": float(clip) if clip else None,
        "scale": a.get("softmax_scale"),
        "position": {"kind": "alibi", "max_bias": float(a.get("alibi_bias_max", 8))},
    }


FAMILY = decoder_family(
    "mpt",
    read,
    (
        rule("attention_input_norm.weight", "norm_1.weight"),
        rule("attention.q.weight attention.k.weight attention.v.weight", "attn.Wqkv.weight", Fuse()),
        rule("attention.o.weight", "attn.out_proj.weight"),
        rule("ffn_input_norm.weight", "norm_2.weight"),
        rule("ffn.up.weight", "ffn.up_proj.weight"),
        rule("ffn.down.weight", "ffn.down_proj.weight"),
    ),
    base="transformer.",
    tokens="wte",
    layers="blocks.{i}.",
    final="norm_f",
)
