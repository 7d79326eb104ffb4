"""GPT-NeoX and Pythia: attention and ffn side by side under a norm each, partial rotations, q k v head by head."""

from __future__ import annotations

from archspec.ops.model import Model

from ..blocks import HEADS, WIDTH, Written, decoder, each, layernorm, mlp
from ..config import Ledger
from ..maps import rule
from ..names import PRE_NORMS, decoder_family
from ..rotary import rope
from ..transforms import FuseGroups
from ..write import activation_name, config, eps, layers, rope_parameters


def read(c: Ledger) -> Written:
    """GPTNeoXConfig."""
    c.ignore("is_decoder")
    heads = c.whole(HEADS)
    position = rope(c, partial=0.25, head_dim=c.whole(WIDTH) // heads)
    block = {
        "parallel": "two_norms" if c.get("use_parallel_residual", True) else None,
        "attention": {"heads": heads, "bias": c.get("attention_bias", True), "position": position},
        "ffn": mlp(c, act="gelu"),
    }
    return decoder(c, norm=layernorm(c), layers=each(c, lambda i: block), tied=False)


def write(model: Model, context_length: int | None) -> Written:
    """GPTNeoXConfig of a model."""
    parts = layers(model, "gpt_neox")
    attention = parts.attention
    turning = attention.rope.dim / attention.head_dim if attention.rope else 0.0
    values = {
        **({"max_position_embeddings": context_length} if context_length else {}),
        "hidden_size": parts.stack.embedding.width,
        "num_hidden_layers": len(parts.stack.layers),
        "num_attention_heads": attention.heads,
        "attention_bias": bool(attention.bias),
        "intermediate_size": parts.ffn.hidden,
        "hidden_act": activation_name(parts.ffn.activation),
        "layer_norm_eps": eps(parts.stack.final_norm),
        "use_parallel_residual": type(parts.stack.layers[0]).__name__ == "ParallelBlock",
        "rope_parameters": {**rope_parameters(attention.rope), "partial_rotary_factor": turning},
        "attention_dropout": attention.scores.dropout,
        "hidden_dropout": parts.residual_dropout,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    return config(model, "gpt_neox", "GPTNeoX", "ForCausalLM", values)


FAMILY = decoder_family(
    "gpt_neox",
    read,
    (
        *PRE_NORMS,
        rule("attention.q.* attention.k.* attention.v.*", "attention.query_key_value.*", FuseGroups("heads")),
        rule("attention.o.*", "attention.dense.*"),
        rule("ffn.up.*", "mlp.dense_h_to_4h.*"),
        rule("ffn.down.*", "mlp.dense_4h_to_h.*"),
    ),
    write=write,
    base="gpt_neox.",
    tokens="embed_in",
    final="final_layer_norm",
    head="embed_out",
    buffers=tuple(f"layers.{{i}}.attention.{x}" for x in ("bias", "masked_bias", "rotary_emb.inv_freq")),
)
