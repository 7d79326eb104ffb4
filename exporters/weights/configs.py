"""Configs of the families: config.json -> what a spec says, and a model -> config.json.

Reading gives the mapping that a spec would hold; whoever needs operations compiles it. Writing is checked by reading back, so
that nothing a config cannot say is lost (`agree.must_say`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from archspec.errors import WeightsError
from archspec.ops.attention import Attention
from archspec.ops.block import Block, Stack
from archspec.ops.embedding import LearnedPositions
from archspec.ops.ffn import Gated, Mlp
from archspec.ops.head import LmHead, NoHead, PoolerHead
from archspec.ops.model import Model
from archspec.ops.norms import LayerNorm, RMSNorm

Config = Mapping[str, Any]
Written = dict[str, Any]

#: Hugging Face's names of activations -> ours. Of several names of one function the first is written.
ACTIVATIONS = {
    "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh", "gelu": "gelu",
    "quick_gelu": "quick_gelu", "relu": "relu", "relu2": "relu_squared", "silu": "silu", "swish": "silu",
    "mish": "mish", "tanh": "tanh", "sigmoid": "sigmoid", "linear": "identity",
}  # fmt: skip


def whole(c: Config, key: str, default: int | None = None) -> int:
    """A whole number above zero."""
    value = c.get(key) if c.get(key) is not None or default is None else default
    if value is None:
        raise WeightsError(f"the config does not say {key}.")
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise WeightsError(f"the config has {key}: {value}, where a whole number above zero is meant.")
    return value


def _activation(name: str) -> str:
    if name not in ACTIVATIONS:
        raise WeightsError(f"the config has the activation {name}, which the language does not have.")
    return ACTIVATIONS[name]


def _activation_name(ours: str) -> str:
    return next(theirs for theirs, name in ACTIVATIONS.items() if name == ours)


def _refuse(c: Config, harmless: Mapping[str, Any]) -> None:
    """Options that the map does not carry must be at the value that changes nothing."""
    for key, value in harmless.items():
        if c.get(key, value) not in (value, None):
            raise WeightsError(f"the config has {key}: {c[key]}, which this map does not carry.")


# ---------------------------------------------------------------------------------------------------------- reading


def read_gpt2(c: Config, names: Collection[str]) -> Written:
    """GPT2Config."""
    _refuse(c, {"scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False})
    d = whole(c, "n_embd")
    attention = {"heads": whole(c, "n_head"), "bias": True}
    if not c.get("scale_attn_weights", True):
        attention["scale"] = 1
    ffn = {
        "kind": "mlp",
        "width": whole(c, "n_inner", 4 * d),
        "activation": _activation(c.get("activation_function", "gelu_new")),
        "bias": True,
    }
    return {
        "vocab_size": whole(c, "vocab_size"),
        "context_length": whole(c, "n_positions"),
        "d_model": d,
        "norm": {"kind": "layernorm", "eps": c.get("layer_norm_epsilon", 1e-5)},
        "embedding": {"position": "learned"},
        "decoder": {"layers": whole(c, "n_layer"), "attention": attention, "ffn": ffn},
        "head": {"tied": c.get("tie_word_embeddings", True)},
    }


def read_bert(c: Config, names: Collection[str]) -> Written:
    """BertConfig, with the masked-language head."""
    _refuse(c, {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False})
    activation = _activation(c.get("hidden_act", "gelu"))
    ffn = {"kind": "mlp", "width": whole(c, "intermediate_size"), "activation": activation, "bias": True}
    return {
        "vocab_size": whole(c, "vocab_size"),
        "context_length": whole(c, "max_position_embeddings"),
        "d_model": whole(c, "hidden_size"),
        "norm": {"kind": "layernorm", "eps": c.get("layer_norm_eps", 1e-12)},
        "embedding": {"position": "learned", "token_types": c.get("type_vocab_size", 2), "norm": "layernorm"},
        "encoder": {
            "layers": whole(c, "num_hidden_layers"),
            "placement": "post",
            "attention": {"heads": whole(c, "num_attention_heads"), "bias": True},
            "ffn": ffn,
        },
        "head": {"tied": c.get("tie_word_embeddings", True), "bias": True, "transform": {"activation": activation}},
    }


def read_llama(c: Config, names: Collection[str]) -> Written:
    """LlamaConfig."""
    heads = whole(c, "num_attention_heads")
    rope = c.get("rope_parameters") or {"rope_theta": c.get("rope_theta"), **(c.get("rope_scaling") or {})}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise WeightsError(f"the config has rope scaling of type {kind}, which this map does not carry.")
    attention = {
        "heads": heads,
        "kv_heads": whole(c, "num_key_value_heads", heads),
        "head_dim": whole(c, "head_dim", whole(c, "hidden_size") // heads),
        "bias": bool(c.get("attention_bias")),
        "position": {"kind": "rope", "theta": rope.get("rope_theta") or 10000.0},
    }
    ffn = {
        "kind": "gated",
        "width": whole(c, "intermediate_size"),
        "activation": _activation(c.get("hidden_act", "silu")),
        "bias": bool(c.get("mlp_bias")),
    }
    length = c.get("max_position_embeddings")
    return {
        "vocab_size": whole(c, "vocab_size"),
        **({"context_length": length} if length else {}),
        "d_model": whole(c, "hidden_size"),
        "norm": {"kind": "rmsnorm", "eps": c.get("rms_norm_eps", 1e-6)},
        "decoder": {"layers": whole(c, "num_hidden_layers"), "attention": attention, "ffn": ffn},
        "head": {"tied": c.get("tie_word_embeddings", False)},
    }


#: GGUF's keys, below the architecture's name -> LlamaConfig's.
_LLAMA_GGUF = {
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
_LLAMA_GGUF_HARMLESS: Mapping[str, Any] = {"expert_count": 0, "expert_used_count": 0, "rope.scaling.type": "none"}


def read_llama_gguf(c: Config, names: Collection[str]) -> Written:
    """The metadata of llama.cpp's llama architecture. A key that is not understood is an error: it may change the function."""
    stated = {key.removeprefix("llama."): c[key] for key in c if key.startswith("llama.")}
    config = {_LLAMA_GGUF[key]: value for key, value in stated.items() if key in _LLAMA_GGUF}
    head_dim = whole(config, "head_dim", whole(config, "hidden_size") // whole(config, "num_attention_heads"))
    harmless = {**_LLAMA_GGUF_HARMLESS, "rope.dimension_count": head_dim, "attention.value_length": head_dim}
    odd = {k: v for k, v in stated.items() if k not in _LLAMA_GGUF and v != harmless.get(k)}
    if odd:
        raise WeightsError(f"this map does not carry llama.{', llama.'.join(f'{k} = {v}' for k, v in odd.items())}.")
    if "vocab_size" not in config and "tokenizer.ggml.tokens" in c:
        config["vocab_size"] = len(c["tokenizer.ggml.tokens"])
    return read_llama({**config, "tie_word_embeddings": "output.weight" not in names}, names)


# ---------------------------------------------------------------------------------------------------------- writing


def _layer(stack: Stack | None, family: str) -> tuple[Stack, Attention, Mlp | Gated]:
    """The stack and the parts of its first layer, which has to be an attention and a feed-forward network in a row."""
    block = stack.layers[0] if stack else None
    parts = block.children() if isinstance(block, Block) else {}
    attention, ffn = parts.get("attention"), parts.get("ffn")
    if stack is None or not isinstance(attention, Attention) or not isinstance(ffn, Mlp | Gated):
        raise WeightsError(
            f"the {family} form has layers of one attention and one feed-forward network, one after the other."
        )
    return stack, attention, ffn


def _eps(norm: object) -> float:
    return norm.eps if isinstance(norm, LayerNorm | RMSNorm) else 0.0


def _rows(stack: Stack) -> int:
    return stack.embedding.position.rows if isinstance(stack.embedding.position, LearnedPositions) else 0


def _residual_dropout(stack: Stack) -> float:
    block = stack.layers[0]
    return block.sublayers[0].residual.dropout if isinstance(block, Block) else 0.0


def write_gpt2(model: Model, context_length: int | None) -> Written:
    """GPT2Config of a model."""
    stack, attention, ffn = _layer(model.decoder, "gpt2")
    tied = isinstance(model.head, LmHead) and model.head.tied
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2Model" if isinstance(model.head, NoHead) else "GPT2LMHeadModel"],
        "vocab_size": stack.embedding.vocab,
        "n_positions": _rows(stack),
        "n_embd": stack.embedding.width,
        "n_layer": len(stack.layers),
        "n_head": attention.heads,
        "n_inner": ffn.hidden,
        "activation_function": _activation_name(ffn.activation),
        "layer_norm_epsilon": _eps(stack.final_norm),
        "scale_attn_weights": attention.scores.scale != 1.0,
        "tie_word_embeddings": tied,
        "attn_pdrop": attention.scores.dropout,
        "embd_pdrop": stack.embedding.dropout,
        "resid_pdrop": _residual_dropout(stack),
        "bos_token_id": None,
        "eos_token_id": None,
    }


def write_bert(model: Model, context_length: int | None) -> Written:
    """BertConfig of a model."""
    stack, attention, ffn = _layer(model.encoder, "bert")
    bare = isinstance(model.head, NoHead | PoolerHead)
    return {
        "model_type": "bert",
        "architectures": ["BertModel" if bare else "BertForMaskedLM"],
        "vocab_size": stack.embedding.vocab,
        "max_position_embeddings": _rows(stack),
        "hidden_size": stack.embedding.width,
        "num_hidden_layers": len(stack.layers),
        "num_attention_heads": attention.heads,
        "intermediate_size": ffn.hidden,
        "hidden_act": _activation_name(ffn.activation),
        "layer_norm_eps": _eps(stack.embedding.norm),
        "type_vocab_size": stack.embedding.token_types,
        "tie_word_embeddings": bare or (isinstance(model.head, LmHead) and model.head.tied),
        "hidden_dropout_prob": stack.embedding.dropout,
        "attention_probs_dropout_prob": attention.scores.dropout,
    }


def write_llama(model: Model, context_length: int | None) -> Written:
    """LlamaConfig of a model."""
    stack, attention, ffn = _layer(model.decoder, "llama")
    return {
        "model_type": "llama",
        "architectures": ["LlamaModel" if isinstance(model.head, NoHead) else "LlamaForCausalLM"],
        "vocab_size": stack.embedding.vocab,
        **({"max_position_embeddings": context_length} if context_length else {}),
        "hidden_size": stack.embedding.width,
        "num_hidden_layers": len(stack.layers),
        "num_attention_heads": attention.heads,
        "num_key_value_heads": attention.kv_heads,
        "head_dim": attention.head_dim,
        "intermediate_size": ffn.hidden,
        "hidden_act": _activation_name(ffn.activation),
        "rms_norm_eps": _eps(stack.final_norm),
        "attention_bias": bool(attention.bias),
        "mlp_bias": bool(ffn.bias),
        "rope_parameters": {"rope_type": "default", "rope_theta": attention.rope.theta if attention.rope else None},
        "tie_word_embeddings": isinstance(model.head, LmHead) and model.head.tied,
        "attention_dropout": attention.scores.dropout,
        "bos_token_id": None,
        "eos_token_id": None,
    }
