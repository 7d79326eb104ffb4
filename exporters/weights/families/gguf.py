"""Architectures of llama.cpp, in GGUF: its metadata in the words of Hugging Face's configs, read as those are; and its names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from archspec.errors import WeightsError

from ..blocks import Written
from ..config import Ledger
from ..maps import Family, Rule, rule, under
from ..transforms import Fuse, RopeOrder, Shift, Transform
from . import gemma, gemma2, gemma3, gpt2, llama, mixtral, olmo2, qwen2, qwen3, qwen3_moe, smollm3, starcoder2

Config = dict[str, Any]

#: GGUF's keys, below the architecture's name -> those of a config.json.
_KEYS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.layer_norm_epsilon": "layer_norm_epsilon",
    "attention.sliding_window": "sliding_window",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "rope.freq_base": "rope_theta",
    "vocab_size": "vocab_size",
    "expert_count": "num_local_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
}
_SCALING = {
    "rope.scaling.type": "type",
    "rope.scaling.factor": "factor",
    "rope.scaling.original_context_length": "original_max_position_embeddings",
}
#: Switches of a config that GGUF leaves to the names of tensors.
_BIASES = {"attention": "attn_q", "mlp": "ffn_gate"}


def config_of(c: Ledger, kind: str) -> Config:
    """The metadata of an architecture as a config. A key that is not understood is an error: it may change the function."""
    stated = {key.removeprefix(f"{kind}."): _decimal(c[key]) for key in c if key.startswith(f"{kind}.")}
    config: Config = {_KEYS[key]: value for key, value in stated.items() if key in _KEYS}
    scaling = {_SCALING[key]: value for key, value in stated.items() if key in _SCALING}
    head_dim = config.get("head_dim") or Ledger(config).whole("hidden_size") // Ledger(config).whole(
        "num_attention_heads"
    )
    carried = {**_KEYS, **_SCALING}
    harmless = {"rope.dimension_count": head_dim, "attention.value_length": head_dim}
    odd = {k: v for k, v in stated.items() if k not in carried and v != harmless.get(k)}
    if odd:
        raise WeightsError(f"this map does not carry {kind}.{f', {kind}.'.join(f'{k} = {v}' for k, v in odd.items())}.")
    if "rope_freqs.weight" in c.names:
        remedy = "take its spec from its config.json or the zoo, and its weights from safetensors"
        raise WeightsError(
            "its rotations are scaled by a table (rope_freqs.weight) that this map does not carry.", remedy
        )
    if "vocab_size" not in config and "tokenizer.ggml.tokens" in c:
        config["vocab_size"] = len(c["tokenizer.ggml.tokens"])
    config |= {"head_dim": head_dim, "tie_word_embeddings": "output.weight" not in c.names}
    config |= {f"{part}_bias": f"blk.0.{name}.bias" in c.names for part, name in _BIASES.items()}
    config.setdefault("rope_theta", 10000.0)
    if scaling.get("type", "none") != "none":
        config["rope_scaling"] = scaling
    return config


def _decimal(value: Any) -> Any:
    """A float32 as it was written: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(value))) if isinstance(value, float) else value


def _llama(c: Ledger) -> Written:
    """With experts it is Mixtral."""
    if c.get("num_local_experts"):
        return mixtral.read(c)
    c.ignore("num_experts_per_tok")
    return llama.read(c)


_READERS: Mapping[str, Callable[[Ledger], Written]] = {
    "llama": _llama,
    "qwen2": qwen2.read,
    "qwen3": qwen3.read,
    "qwen3moe": qwen3_moe.read,
    "gemma": gemma.read,
    "gemma2": gemma2.read,
    "gemma3": gemma3.read,
    "gpt2": gpt2.read,
    "smollm3": smollm3.read,
    "olmo2": olmo2.read,
    "starcoder2": starcoder2.read,
}
#: What llama.cpp does whatever the metadata says.
_FIXED: Mapping[str, Config] = {"qwen3moe": {"norm_topk_prob": True}}
#: Gemma's largest model is known by its depth: its scores are scaled by d_model / heads, those of the others by head_dim.
_DEEPEST = {"gemma2": 46, "gemma3": 62}


def _reader(kind: str) -> Callable[[Ledger], Written]:
    def read(c: Ledger) -> Written:
        config = config_of(c, kind) | _FIXED.get(kind, {})
        if kind in _DEEPEST:
            deep = config.get("num_hidden_layers") == _DEEPEST[kind]
            whole = config["hidden_size"] // config["num_attention_heads"]
            config["query_pre_attn_scalar"] = whole if deep else config["head_dim"]
        ledger = Ledger(config)
        # said by us, of use to some: a bias that the reader does not know is a tensor left over
        ledger.ignore("head_dim", "rope_theta", "attention_bias", "mlp_bias")
        written = _READERS[kind](ledger)
        if unread := ledger.unread():
            names = {theirs: key for key, theirs in _KEYS.items()}
            told = ", ".join(f"{kind}.{names.get(key, key)} = {config.get(key)}" for key in unread)
            raise WeightsError(f"this map does not carry {told}.")
        return written

    return read


def _layer(turn: tuple[Transform, ...], norm: tuple[Transform, ...]) -> tuple[Rule, ...]:
    """The names of a layer; the steps of q and k, and of norms."""
    return (
        rule("attention_input_norm.*", "attn_norm.*", *norm),
        rule("attention.q.*", "attn_q.*", *turn),
        rule("attention.k.*", "attn_k.*", *turn),
        rule("attention.v.*", "attn_v.*"),
        rule("attention.q.* attention.k.* attention.v.*", "attn_qkv.*", Fuse()),
        rule("attention.o.*", "attn_output.*"),
        rule("attention.q_norm.*", "attn_q_norm.*", *norm),
        rule("attention.k_norm.*", "attn_k_norm.*", *norm),
        rule("attention_branch_norm.*", "post_attention_norm.*", *norm),
        rule("ffn_input_norm.*", "ffn_norm.*", *norm),
        rule("ffn.gate.*", "ffn_gate.*"),
        rule("ffn.up.*", "ffn_up.*"),
        rule("ffn.down.*", "ffn_down.*"),
        rule("ffn.router.*", "ffn_gate_inp.*"),
        rule("ffn.expert.gate.*", "ffn_gate_exps.*"),
        rule("ffn.expert.up.*", "ffn_up_exps.*"),
        rule("ffn.expert.down.*", "ffn_down_exps.*"),
        rule("ffn_branch_norm.*", "post_ffw_norm.*", *norm),
    )


def _family(kind: str) -> Family:
    turn = (RopeOrder(),) if kind in ("llama", "smollm3") else ()  # its converter permutes the rows of q and k
    norm = (Shift(1.0),) if kind.startswith("gemma") else ()  # its converter adds the 1 of 1 + w
    layer = _layer(turn, norm)
    if kind == "gpt2":
        layer = tuple(r for r in layer if r.theirs[0] not in ("attn_q.*", "attn_k.*", "attn_v.*"))
    return Family(
        name=f"{kind} (GGUF)",
        read=_reader(kind),
        format="gguf",
        types=(kind,),
        body=(
            rule("decoder.embedding.tokens.weight", "token_embd.weight"),
            rule("decoder.embedding.positions.weight", "position_embd.weight"),
            *under("decoder.layers.{i}.", "blk.{i}.", layer),
            rule("decoder.final_norm.*", "output_norm.*", *norm),
        ),
        heads={"lm": (rule("head.out.weight", "output.weight"),)},
    )


FAMILIES = tuple(_family(kind) for kind in _READERS)
