"""GPT-J: attention and ffn side by side under one norm, adjacent rotary pairs on the first channels, a bias on the vocabulary."""

from __future__ import annotations

from archspec.ops.model import Model

from ..blocks import HEADS, WIDTH, Written, decoder, each, layernorm, mlp
from ..config import Ledger
from ..maps import rule
from ..names import decoder_family
from ..write import activation_name, config, eps, layers


def read(c: Ledger) -> Written:
    """GPTJConfig."""
    c.known(rotary=True, scale_attn_weights=True)
    heads, turning = c.whole(HEADS), c.whole("rotary_dim", 64)
    dim = turning if turning * heads != c.whole(WIDTH) else None
    block = {
        "parallel": "one_norm",
        "attention": {"heads": heads, "position": {"kind": "rope", "dim": dim, "pairing": "interleaved"}},
        "ffn": mlp(c, act="gelu_new"),
    }
    return decoder(c, norm=layernorm(c), layers=each(c, lambda i: block), tied=False, head={"bias": True})


def write(model: Model, context_length: int | None) -> Written:
    """GPTJConfig of a model."""
    parts = layers(model, "gptj")
    values = {
        "n_positions": context_length or 2048,
        "n_embd": parts.stack.embedding.width,
        "n_layer": len(parts.stack.layers),
        "n_head": parts.attention.heads,
        "rotary_dim": parts.attention.rope.dim if parts.attention.rope else None,
        "n_inner": parts.ffn.hidden,
        "activation_function": activation_name(parts.ffn.activation),
        "layer_norm_epsilon": eps(parts.stack.final_norm),
        "attn_pdrop": parts.attention.scores.dropout,
        "embd_pdrop": parts.stack.embedding.dropout,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    return config(model, "gptj", "GPTJ", "ForCausalLM", values)


FAMILY = decoder_family(
    "gptj",
    read,
    (
        rule("input_norm.*", "ln_1.*"),
        *(rule(f"attention.{x}.weight", f"attn.{x}_proj.weight") for x in "qkv"),
        rule("attention.o.weight", "attn.out_proj.weight"),
        rule("ffn.up.*", "mlp.fc_in.*"),
        rule("ffn.down.*", "mlp.fc_out.*"),
    ),
    write=write,
    base="transformer.",
    tokens="wte",
    layers="h.{i}.",
    final="ln_f",
    buffers=("h.{i}.attn.bias", "h.{i}.attn.masked_bias"),
)
