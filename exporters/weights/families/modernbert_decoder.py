"""ModernBERT as a decoder (Ettin): its layers and its head, each token with a window into the past."""

from __future__ import annotations

from dataclasses import replace

from ..blocks import Written, decoder
from ..config import Ledger
from ..maps import rule
from ..names import decoder_family
from ..transforms import Fuse
from .modernbert import layers, lm, norm


def read(c: Ledger) -> Written:
    """ModernBertDecoderConfig. A window is half of `local_attention`, the token itself among it."""
    return decoder(c, norm=norm(c), embedding={"norm": "layernorm"}, layers=layers(c), head=lm(c), tied=True)


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
