"""What the author of a faulty spec most likely meant: the names of other configuration formats, and values written otherwise.

Nothing here reports. It answers what to write instead, for the checks that do.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from archspec.diagnostics import listing

from .grammar import Shape, keys_of
from .nodes import Node

#: What other configuration formats call these.
_SYNONYMS = {
    "heads": "num_heads num_head n_head n_heads nhead num_attention_heads attention_heads",
    "kv_heads": "num_kv_heads n_kv_heads num_key_value_heads num_query_groups kv_groups",
    "head_dim": "d_head d_kv dim_head head_size attention_head_dim",
    "layers": "num_layers n_layer n_layers num_hidden_layers depth num_blocks",
    "d_model": "hidden_size n_embd dim embed_dim hidden_dim model_dim width",
    "width": "intermediate_size d_ff dim_feedforward ffn_dim n_inner hidden_dim inner_dim",
    "vocab_size": "vocab n_vocab vocabulary_size",
    "context_length": "max_position_embeddings n_positions max_seq_len max_length n_ctx block_size seq_len context",
    "activation": "act hidden_act act_fn activation_function",
    "eps": "epsilon layer_norm_eps rms_norm_eps layer_norm_epsilon norm_eps",
    "theta": "rope_theta base rotary_base",
    "tied": "tie tie_word_embeddings tie_weights",
    "placement": "norm_placement norm_position",
    "attention": "attn self_attention self_attn",
    "cross_attention": "cross_attn encoder_attention",
    "ffn": "mlp feed_forward feedforward",
    "window": "sliding_window window_size attention_window",
    "position": "positions pos pos_emb position_embedding positional_encoding",
    "repeat": "times count repeats",
    "experts": "num_experts n_experts num_local_experts",
    "embedding": "embeddings embed emb",
    "softcap": "soft_cap logit_softcap attn_logit_softcapping",
    "dtype": "torch_dtype precision",
}
KEYS = {word: key for key, words in _SYNONYMS.items() for word in words.split()}

WORDS = {
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "swish": "silu",
    "swiglu": "gated",
    "geglu": "gated",
    "glu": "gated",
    "dense": "mlp",
    "relu2": "relu_squared",
    "linear": "identity",
    "rotary": "rope",
    "absolute": "learned",
    "sine": "sinusoidal",
    "post_norm": "post",
    "pre_norm": "pre",
}

# ------------------------------------------------------------------------------------------------------- foreign keys


class Foreign(NamedTuple):
    """A key of other formats whose meaning this language says elsewhere, and in another form.

    `homes` are the mappings where `key` stands, the likeliest first ("spec" is the top of the file); `yes` is what is written
    under it, with the author's value for `{}`, and `no` what instead where the value is false.
    """

    homes: tuple[str, ...]
    key: str
    yes: str
    no: str | None = None


_BLOCKS = ("decoder", "encoder", "block", "entry")
_FOREIGN = {
    "tie_word_embeddings tie_embeddings tie_weights tied_embeddings tied": Foreign(("spec",), "head", "{{tied: {}}}"),
    "rope_theta rope_base rotary_base": Foreign(("attention",), "position", "{{kind: rope, theta: {}}}"),
    "rms_norm_eps layer_norm_eps layer_norm_epsilon norm_eps norm_epsilon": Foreign(("spec",), "norm", "{{eps: {}}}"),
    "multi_query mqa": Foreign(("attention",), "kv_heads", "1"),
    "norm_first pre_norm normalize_before": Foreign(_BLOCKS, "placement", "pre", "post"),
}
_ELSEWHERE = {word: foreign for words, foreign in _FOREIGN.items() for word in words.split()}


def foreign(key: str, child: Node, shape: Shape) -> tuple[str, str] | None:
    """(what to write for a key of another format, the key here that it stands for or ""); None where it is not one."""
    found = _ELSEWHERE.get(key.lower())
    if found is None:
        return None
    scalar = not isinstance(child.value, dict | list) and child.place.length <= 20
    start = child.place.column - 1
    shown = child.place.text[start : start + child.place.length] if scalar else "…"
    template = found.no if found.no and child.value is False else found.yes
    text = f"write `{found.key}: {template.format(shown)}`"
    if shape.name in found.homes:
        return text, found.key
    home = found.homes[0]
    return f"{text} {'at the top of the spec' if home == 'spec' else f'under `{home}:`'}", ""


_POSITIONS = {"embedding": keys_of("top")["embedding"], "attention": keys_of("block")["attention"]}


def other_section(word: str, shape: Shape) -> str | None:
    """Where a kind of position goes that is none here: `rope` under attention, `learned` under embedding."""
    if shape.name != "position":
        return None
    homes = [name for name, section in _POSITIONS.items() if word in section.keys_of()["position"].kinds]
    return f"`{word}` goes under {listing(f'{home}:' for home in homes)}" if homes else None


# ------------------------------------------------------------------------------------------------------------- values

_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_TIMES = r"(?P<left>[0-9.]+)\s*(?:x|×|\*?\s*(?:d_model|hidden_size|d))|(?:d_model|d)\s*\*\s*(?P<right>[0-9.]+)"
_NOTHING = ("none", "null", "false", "no", "off")


def rewritten(node: Node, shape: Shape) -> str | None:
    """What to write instead of a value of the wrong type or out of its range, where that is plain."""
    value, name = node.value, shape.name
    if shape.removable and _says_nothing(node, shape):
        return f"write `{name}: none`" + (" for no window" if name == "window" else "")
    if isinstance(value, str):
        return _of_text(node, value, shape)
    if isinstance(value, float) and int in shape.types and value.is_integer():
        return f"write {int(value)}"
    if isinstance(value, list) and len(value) == 1 and int in shape.types and isinstance(value[0].value, int):
        return f"write {value[0].value}"
    if name == "entry" and isinstance(value, int):
        return f"a number of layers stands alone: `layers: {value}`"
    if name == "dropout" and isinstance(value, float):
        return f"say what is dropped: `dropout: {{residual: {value:g}}}`"
    if name == "qk_norm" and value is True:
        return _QK_NORM
    return None


_QK_NORM = "say over what: `qk_norm: {over: head}` norms each head with the model's norm"


def _says_nothing(node: Node, shape: Shape) -> bool:
    value = node.value
    if isinstance(value, str):
        return value.lower() in _NOTHING
    return value is False or (shape.name == "window" and value in (0, -1))


def _of_text(node: Node, value: str, shape: Shape) -> str | None:
    text, name, owned = value.strip(), shape.name, bool(shape.owners)
    if owned and (pair := re.match(r"(\w+):([^\s:]\S*)", text)) is not None:
        return f"a colon needs a space after it: `{pair[1]}: {pair[2]}`"
    if bool in shape.types and text.lower() in ("yes", "on", "y", "no", "off", "n"):
        return f"write {'true' if text.lower() in ('yes', 'on', 'y') else 'false'}: only these two words are boolean"
    if bool in shape.types and shape.item is not None and set(text) <= set(shape.item.words):
        return f"write `{name}: [{', '.join(text)}]`"
    if name == "qk_norm":
        return _QK_NORM
    if name == "width" and owned and (times := re.fullmatch(_TIMES, text)) is not None:
        return f"write `width: {{ratio: {times['left'] or times['right']}}}`"
    return _number(node, text, shape)


def _number(node: Node, text: str, shape: Shape) -> str | None:
    """The number that a text spells."""
    if not {int, float} & set(shape.types):
        return None
    if node.quoted and re.fullmatch(_NUMBER, text):
        return "remove the quotes"
    if re.fullmatch(r"[0-9]{1,3}(?:,[0-9]{3})+", text):
        return f"write {text.replace(',', '')}"
    if float in shape.types and re.fullmatch(r"[0-9]+(?:\.[0-9]+)?\s*%", text):
        return f"write {float(text.rstrip('% ')) / 100:g}"
    short = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kKmMbB])", text)
    if short is None:
        return None
    power = "kmb".index(short[2].lower()) + 1
    decimal = f"{float(short[1]) * 1000**power:.0f}"
    return f"write {decimal}" + (f", or {float(short[1]) * 1024:.0f} if k is 1024" if power == 1 else "")
