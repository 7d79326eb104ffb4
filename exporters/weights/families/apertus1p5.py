"""Apertus 1.5, its text part: a plain ffn with xIELU, whose two slopes are learned."""

from __future__ import annotations

from ..blocks import ACTIVATION, INNER, Written, activation, decoder, each, grouped, rmsnorm
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, QK_NORM, decoder_family
from ..rotary import rope

_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 12e6,
    "factor": 8.0,
    "original_max_position_embeddings": 8192,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}


def read(c: Ledger) -> Written:
    """Apertus1p5TextConfig."""
    c.known(output_vocab_size=None)
    name = c.get(ACTIVATION, "xielu")
    position = rope(c, theta=12e6) if "rope_parameters" in c else rope(Ledger({**c, "rope_parameters": _ROPE}))
    block = {
        "attention": {
            **grouped(c),
            "bias": c.get("attention_bias", False),
            "qk_norm": {"over": "head"},
            "position": position,
        },
        "ffn": {"kind": "mlp", "width": c.whole(INNER), "activation": name if name == "xielu" else activation(name)},
    }
    return decoder(c, norm=rmsnorm(c, 1e-5), layers=each(c, lambda i: block), tied=False)


FAMILY = decoder_family(
    "apertus1p5",
    read,
    (
        rule("attention_input_norm.weight", "attention_layernorm.weight"),
        rule("ffn_input_norm.weight", "feedforward_layernorm.weight"),
        *ATTENTION,
        *QK_NORM,
        rule("ffn.up.weight", "mlp.up_proj.weight"),
        rule("ffn.down.weight", "mlp.down_proj.weight"),
        rule("ffn.alpha_p", "mlp.act_fn.alpha_p"),
        rule("ffn.alpha_n", "mlp.act_fn.alpha_n"),
    ),
    types=("apertus1p5_text",),
    buffers=("layers.{i}.mlp.act_fn.beta", "layers.{i}.mlp.act_fn.eps"),
)
