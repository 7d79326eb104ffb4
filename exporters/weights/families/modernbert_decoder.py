"""ModernBERT as a decoder (Ettin): no norm before the first attention, windows, a rotation by layer type, BERT's kind of head."""

from __future__ import annotations

from dataclasses import replace

from ..blocks import Block, Written, activation, decoder, each, gated, layer_types
from ..config import Ledger
from ..maps import rule
from ..names import decoder_family
from ..rotary import rope
from ..transforms import Fuse


def read(c: Ledger) -> Written:
    """ModernBertDecoderConfig. A window is half of `local_attention`, the token itself among it."""
    period, window = c.whole("global_attn_every_n_layers", 3), c.whole("local_attention", 128) // 2
    c.known(sliding_window=window)
    c.ignore("layer_norm_eps", "position_embedding_type")  # norm_eps and the rotations say it
    c.ignore("reference_compile", "repad_logits_with_grad", "deterministic_flash_attn")
    types = layer_types(c, lambda i: "sliding_attention" if i % period else "full_attention")
    theta = {
        "full_attention": c.get("global_rope_theta", 160000.0),
        "sliding_attention": c.get("local_rope_theta", 10000.0),
    }

    def block(i: int) -> Block:
        attention = {
            "heads": c.whole("num_attention_heads"),
            "bias": c.get("attention_bias", False),
            "position": rope(c, types[i], theta=theta[types[i]]),
            "window": window if types[i] == "sliding_attention" else None,
            "placement": None if i else "none",
        }
        return {"attention": attention, "ffn": gated(c, act="gelu", bias=c.get("mlp_bias", False))}

    head = {
        "bias": c.get("decoder_bias", True),
        "transform": {
            "activation": activation(c.get("classifier_activation", "gelu")),
            "bias": c.get("classifier_bias", False),
        },
    }
    norm = {"kind": "layernorm", "eps": float(c.get("norm_eps", 1e-5)), "bias": c.get("norm_bias", False)}
    return decoder(c, norm=norm, embedding={"norm": "layernorm"}, layers=each(c, block), head=head, tied=True)


_LAYER = (
    rule("attention_input_norm.*", "attn_norm.*"),
    rule("attention.q.*", "attn.q_proj.*"),
    rule("attention.k.*", "attn.k_proj.*"),
    rule("attention.v.*", "attn.v_proj.*"),
    rule("attention.o.*", "attn.Wo.*"),
    rule("ffn_input_norm.*", "mlp_norm.*"),
    rule("ffn.gate.* ffn.up.*", "mlp.Wi.*", Fuse()),
    rule("ffn.down.*", "mlp.Wo.*"),
)
_HEAD = (
    rule("head.dense.*", "lm_head.dense.*"),
    rule("head.norm.*", "lm_head.norm.*"),
    rule("head.out.*", "decoder.*"),
)

FAMILY = replace(
    decoder_family(
        "modernbert_decoder",
        read,
        _LAYER,
        types=("modernbert-decoder",),
        tokens="embeddings.tok_embeddings",
        body=(rule("decoder.embedding.norm.*", "embeddings.norm.*"),),
        final="final_norm",
    ),
    heads={"lm": _HEAD},
)
