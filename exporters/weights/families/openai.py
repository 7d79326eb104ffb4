"""GPT-1: GPT-2's names without a last norm, and each norm after the residual sum."""

from __future__ import annotations

from archspec.errors import WeightsError

from ..blocks import HEADS, WIDTH, Written, decoder, each, layernorm
from ..config import Ledger
from ..maps import rule
from ..names import decoder_family
from ..transforms import Fuse, Transpose

#: What `afn` means in this family alone: gelu is the tanh form.
_ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}


def read(c: Ledger) -> Written:
    """OpenAIGPTConfig."""
    c.ignore("n_special", "predict_special_tokens")
    name = c.get("afn", "gelu")
    if name not in _ACTIVATIONS:
        raise WeightsError(f"the config has afn: {name}, where one of {', '.join(_ACTIVATIONS)} is meant.")
    block = {
        "placement": "post",
        "attention": {"heads": c.whole(HEADS), "bias": True},
        "ffn": {"kind": "mlp", "width": 4 * c.whole(WIDTH), "activation": _ACTIVATIONS[name], "bias": True},
    }
    position = {"position": "learned"}
    return decoder(c, norm=layernorm(c), embedding=position, layers=each(c, lambda i: block), tied=True)


FAMILY = decoder_family(
    "openai",
    read,
    (
        rule("attention.q.* attention.k.* attention.v.*", "attn.c_attn.*", Fuse(), Transpose()),
        rule("attention.o.*", "attn.c_proj.*", Transpose()),
        rule("attention_outer_norm.*", "ln_1.*"),
        rule("ffn.up.*", "mlp.c_fc.*", Transpose()),
        rule("ffn.down.*", "mlp.c_proj.*", Transpose()),
        rule("ffn_outer_norm.*", "ln_2.*"),
    ),
    types=("openai-gpt",),
    base="transformer.",
    tokens="tokens_embed",
    layers="h.{i}.",
    body=(rule("decoder.embedding.positions.weight", "positions_embed.weight"),),
    buffers=("h.{i}.attn.bias", "position_ids"),
    aside=("multiple_choice_head.summary.*",),
)
