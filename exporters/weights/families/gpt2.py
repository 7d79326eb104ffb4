"""GPT-2: learned positions, one matrix for q, k and v, matrices stored (in, out)."""

from __future__ import annotations

from archspec.ops.model import Model

from ..blocks import HEADS, Written, decoder, each, layernorm, mlp
from ..config import Ledger
from ..maps import rule
from ..names import decoder_family
from ..transforms import Fuse, Transpose
from ..write import activation_name, config, eps, layers


def read(c: Ledger) -> Written:
    """GPT2Config."""
    c.known(scale_attn_by_inverse_layer_idx=False)
    c.ignore("reorder_and_upcast_attn")
    scale = None if c.get("scale_attn_weights", True) else 1
    block = {
        "attention": {"heads": c.whole(HEADS), "bias": True, "scale": scale},
        "ffn": mlp(c, act="gelu_new"),
    }
    norm, position = layernorm(c), {"position": "learned"}
    return decoder(c, norm=norm, embedding=position, layers=each(c, lambda i: block), tied=True)


def write(model: Model, context_length: int | None) -> Written:
    """GPT2Config of a model."""
    parts = layers(model, "gpt2")
    values = {
        "n_positions": parts.rows,
        "n_embd": parts.stack.embedding.width,
        "n_layer": len(parts.stack.layers),
        "n_head": parts.attention.heads,
        "n_inner": parts.ffn.hidden,
        "activation_function": activation_name(parts.ffn.activation),
        "layer_norm_epsilon": eps(parts.stack.final_norm),
        "scale_attn_weights": parts.attention.scores.scale != 1.0,
        "attn_pdrop": parts.attention.scores.dropout,
        "embd_pdrop": parts.stack.embedding.dropout,
        "resid_pdrop": parts.residual_dropout,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    return config(model, "gpt2", "GPT2", "LMHeadModel", values)


FAMILY = decoder_family(
    "gpt2",
    read,
    (
        rule("attention_input_norm.*", "ln_1.*"),
        rule("attention.q.* attention.k.* attention.v.*", "attn.c_attn.*", Fuse(), Transpose()),
        rule("attention.o.*", "attn.c_proj.*", Transpose()),
        rule("ffn_input_norm.*", "ln_2.*"),
        rule("ffn.up.*", "mlp.c_fc.*", Transpose()),
        rule("ffn.down.*", "mlp.c_proj.*", Transpose()),
    ),
    write=write,
    base="transformer.",
    tokens="wte",
    layers="h.{i}.",
    final="ln_f",
    body=(rule("decoder.embedding.positions.weight", "wpe.weight"),),
    buffers=("h.{i}.attn.bias", "h.{i}.attn.masked_bias"),
)
