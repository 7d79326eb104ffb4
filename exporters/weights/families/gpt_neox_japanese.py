"""GPT-NeoX Japanese: one after the other again, and no bias but that of the last layer's o."""

from __future__ import annotations

from ..blocks import ACTIVATION, DEPTH, HEADS, WIDTH, Written, activation, decoder, each, layernorm
from ..config import Ledger
from ..maps import rule
from ..names import PRE_NORMS, decoder_family
from ..rotary import rope
from ..transforms import FuseGroups


def read(c: Ledger) -> Written:
    """GPTNeoXJapaneseConfig."""
    c.ignore("is_decoder")
    heads, width, last = c.whole(HEADS), c.whole(WIDTH), c.whole(DEPTH) - 1
    position = rope(c, partial=1.0, head_dim=width // heads)
    ffn = {
        "kind": "mlp",
        "width": int(width * c.get("intermediate_multiple_size", 4)),
        "activation": activation(c.get(ACTIVATION, "gelu")),
    }

    def block(i: int) -> Written:
        return {"attention": {"heads": heads, "bias": ["o"] if i == last else False, "position": position}, "ffn": ffn}

    return decoder(c, norm=layernorm(c), layers=each(c, block), tied=True)


FAMILY = decoder_family(
    "gpt_neox_japanese",
    read,
    (
        *PRE_NORMS,
        rule(
            "attention.q.weight attention.k.weight attention.v.weight",
            "attention.query_key_value.weight",
            FuseGroups("heads"),
        ),
        rule("attention.o.weight", "attention.dense.weight"),
        rule("attention.o.bias", "attention.dense_bias"),
        rule("ffn.up.weight", "mlp.dense_h_to_4h.weight"),
        rule("ffn.down.weight", "mlp.dense_4h_to_h.weight"),
    ),
    base="gpt_neox_japanese.",
    tokens="embed_in",
    final="final_layer_norm",
    head="embed_out",
)
