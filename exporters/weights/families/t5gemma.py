"""T5Gemma: an encoder and a decoder of Gemma 2's layers, each with a token table of its own."""

from __future__ import annotations

from dataclasses import replace

from archspec.errors import WeightsError

from ..blocks import LENGTH, RMS_EPS, WIDTH, Written, rmsnorm
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, GATED
from ..seq2seq import encoder_decoder, encoder_decoder_family
from .gemma2 import blocks


def read(c: Ledger) -> Written:
    """T5GemmaConfig, which has a config of each stack."""
    first, last = c.part("encoder"), c.part("decoder")
    for key in (WIDTH, RMS_EPS, "vocab_size", LENGTH):
        if first.get(key) != last.get(key):
            name = key.split("|")[0]
            raise WeightsError(f"the config's stacks differ in {name}, which is one in the language.")
    for part in (first, last):
        part.ignore("is_decoder", "cross_attention_hidden_size", "tie_word_embeddings", "final_logit_softcapping")
    rate = c.get("dropout_rate", 0.0)
    return encoder_decoder(
        c,
        norm=rmsnorm(last, weight="1+w"),
        embedding={"scale": "sqrt(d_model)", "share": "none"},
        encoder=[{**layer, "placement": "sandwich"} for layer in blocks(first)],
        decoder=[{**layer, "placement": "sandwich"} for layer in blocks(last)],
        head={
            "tied": bool(c.get("tie_word_embeddings", True)),
            "softcap": last.stated("final_logit_softcapping", 30.0),
        },
        length=last.get(LENGTH),
        width=last.whole(WIDTH),
        rates={"embedding": rate, "attention": c.get("attention_dropout", 0.0), "ffn": rate, "residual": rate},
    )


FAMILY = replace(
    encoder_decoder_family(
        "t5gemma",
        read,
        (
            rule("attention_input_norm.*", "pre_self_attn_layernorm.*"),
            rule("attention_branch_norm.*", "post_self_attn_layernorm.*"),
            rule("ffn_input_norm.*", "pre_feedforward_layernorm.*"),
            rule("ffn_branch_norm.*", "post_feedforward_layernorm.*"),
            *ATTENTION,
            *GATED,
        ),
        decoder=(
            rule("cross_attention_input_norm.*", "pre_cross_attn_layernorm.*"),
            rule("cross_attention_branch_norm.*", "post_cross_attn_layernorm.*"),
            *(rule(f"cross_attention.{x}.*", f"cross_attn.{x}_proj.*") for x in "qkvo"),
        ),
        base="model.",
        final="norm",
        buffers=("rotary_emb.inv_freq",),
    ),
    heads={"lm": (rule("head.out.*", "lm_head.out_proj.*"),)},
)
