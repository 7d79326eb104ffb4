"""Nomic's BERT: rotations in place of a table of positions, a gated ffn, no biases in the layers.

Its config is that of transformers, or an older one in GPT-2's names with switches for what flash-attn can do besides.
"""

from __future__ import annotations

from ..blocks import Block, Written, dropout, each, gated, grouped, layernorm
from ..config import Ledger
from ..encoders import BERT_HEAD, bert_dropout, encoder, encoder_family, pooled
from ..maps import rule
from ..rotary import rope
from ..transforms import Fuse

#: What an older config has to say, and what it may say.
_STATED = {"rotary_emb_fraction": 1.0, "qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False}
_OTHERWISE = {
    "activation_function": "swiglu", "causal": False, "parallel_block": False, "parallel_block_tied_norm": False, "prenorm": False,
    "rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "rotary_scaling_factor": None,
    "scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True, "use_rms_norm": False,
}  # fmt: skip
_HOW = (
    "dense_seq_output", "fused_bias_fc", "fused_dropout_add_ln", "max_trained_positions", "pad_vocab_size_multiple",
    "reorder_and_upcast_attn", "use_xentropy",
)  # fmt: skip


def read(c: Ledger) -> Written:
    """NomicBertConfig."""
    older = "n_embd" in c
    if older:
        _ = [c[key] for key in _STATED]  # left out, they mean the contrary
        c.known(**_STATED, **_OTHERWISE)
        c.ignore(*_HOW)
    block: Block = {
        "placement": "post",
        "attention": {**grouped(c), "position": rope(c, theta=1000.0)},
        "ffn": gated(c, key="hidden_act"),
    }
    return encoder(
        c,
        norm=layernorm(c, 1e-12),
        embedding={"token_types": c.get("type_vocab_size", 2), "norm": "layernorm"},
        layers=each(c, lambda i: block),
        lm={"transform": {"activation": block["ffn"]["activation"]}},
        texts=pooled("tanh"),
        rates=dropout(c) if older else bert_dropout(c, 0.0),
    )


_LAYER = (
    rule("attention.q.* attention.k.* attention.v.*", "attn.Wqkv.*", Fuse()),
    rule("attention.o.*", "attn.out_proj.*"),
    rule("attention_outer_norm.*", "norm1.*"),
    rule("ffn.up.*", "mlp.fc11.*"),
    rule("ffn.gate.*", "mlp.fc12.*"),
    rule("ffn.down.*", "mlp.fc2.*"),
    rule("ffn_outer_norm.*", "norm2.*"),
)
_NORM = rule("head.norm.*", "cls.predictions.transform.layer_norm.*")
FAMILY = encoder_family(
    "nomic_bert",
    read,
    _LAYER,
    (*BERT_HEAD, _NORM),
    base="nomic_bert.",
    layers="encoder.layers.{i}.",
    body=(rule("encoder.embedding.norm.*", "emb_ln.*"),),
)
