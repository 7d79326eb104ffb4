"""llama.cpp's llama architecture, in GGUF."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archspec.errors import WeightsError

from ..blocks import Written
from ..config import Ledger
from ..maps import Family, rule, under
from ..transforms import RopeOrder
from . import llama

#: GGUF's keys, below the architecture's name -> LlamaConfig's.
_KEYS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.freq_base": "rope_theta",
    "vocab_size": "vocab_size",
}
#: Keys that are not carried, at the values that change nothing.
_HARMLESS: Mapping[str, Any] = {"expert_count": 0, "expert_used_count": 0, "rope.scaling.type": "none"}


def read(c: Ledger) -> Written:
    """The metadata of llama.cpp's llama architecture. A key that is not understood is an error: it may change the function."""
    stated = {key.removeprefix("llama."): c[key] for key in c if key.startswith("llama.")}
    config = {_KEYS[key]: value for key, value in stated.items() if key in _KEYS}
    inner = Ledger(config)
    head_dim = inner.whole("head_dim", inner.whole("hidden_size") // inner.whole("num_attention_heads"))
    harmless = {**_HARMLESS, "rope.dimension_count": head_dim, "attention.value_length": head_dim}
    odd = {k: v for k, v in stated.items() if k not in _KEYS and v != harmless.get(k)}
    if odd:
        raise WeightsError(f"this map does not carry llama.{', llama.'.join(f'{k} = {v}' for k, v in odd.items())}.")
    if "vocab_size" not in config and "tokenizer.ggml.tokens" in c:
        config["vocab_size"] = len(c["tokenizer.ggml.tokens"])
    return llama.read(Ledger({**config, "tie_word_embeddings": "output.weight" not in c.names}))


_LAYER = (
    rule("attention_input_norm.weight", "attn_norm.weight"),
    rule("attention.q.*", "attn_q.*", RopeOrder()),
    rule("attention.k.*", "attn_k.*", RopeOrder()),
    rule("attention.v.*", "attn_v.*"),
    rule("attention.o.*", "attn_output.*"),
    rule("ffn_input_norm.weight", "ffn_norm.weight"),
    rule("ffn.gate.*", "ffn_gate.*"),
    rule("ffn.up.*", "ffn_up.*"),
    rule("ffn.down.*", "ffn_down.*"),
)

FAMILY = Family(
    name="llama (GGUF)",
    read=read,
    format="gguf",
    types=("llama",),
    body=(
        rule("decoder.embedding.tokens.weight", "token_embd.weight"),
        *under("decoder.layers.{i}.", "blk.{i}.", _LAYER),
        rule("decoder.final_norm.weight", "output_norm.weight"),
    ),
    heads={"lm": (rule("head.out.weight", "output.weight"),)},
)
