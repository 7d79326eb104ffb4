"""GPT-Neo: scores that are not scaled, a bias on o alone, every other layer with a window."""

from __future__ import annotations

from archspec.errors import WeightsError

from ..blocks import HEADS, Written, decoder, each, layernorm, mlp
from ..config import Ledger
from ..maps import rule
from ..names import decoder_family


def read(c: Ledger) -> Written:
    """GPTNeoConfig."""
    kinds, window, ffn = _kinds(c), c.whole("window_size", 256), mlp(c, act="gelu_new")

    def block(i: int) -> Written:
        local = window if kinds[i] == "local" else None
        return {"attention": {"heads": c.whole(HEADS), "bias": ["o"], "scale": 1, "window": local}, "ffn": ffn}

    position = {"position": "learned"}
    return decoder(c, norm=layernorm(c), embedding=position, layers=each(c, block), tied=True)


def _kinds(c: Ledger) -> list[str]:
    """`global` or `local` for each layer, from patterns with how often each comes."""
    patterns = c.get("attention_types", [[["global", "local"], 12]])
    kinds = [kind for pattern, times in patterns for _ in range(times) for kind in pattern]
    stated = c.get("attention_layers", kinds)
    if (
        stated != kinds
        or not set(kinds) <= {"global", "local"}
        or len(kinds) != c.whole("num_layers|num_hidden_layers")
    ):
        raise WeightsError(
            f"the config has attention_types: {patterns}, which are not its layers, global or local each."
        )
    return kinds


FAMILY = decoder_family(
    "gpt_neo",
    read,
    (
        rule("attention_input_norm.*", "ln_1.*"),
        *(rule(f"attention.{x}.weight", f"attn.attention.{x}_proj.weight") for x in "qkv"),
        rule("attention.o.*", "attn.attention.out_proj.*"),
        rule("ffn_input_norm.*", "ln_2.*"),
        rule("ffn.up.*", "mlp.c_fc.*"),
        rule("ffn.down.*", "mlp.c_proj.*"),
    ),
    base="transformer.",
    tokens="wte",
    layers="h.{i}.",
    final="ln_f",
    body=(rule("decoder.embedding.positions.weight", "wpe.weight"),),
    buffers=("h.{i}.attn.attention.bias", "h.{i}.attn.attention.masked_bias"),
)
