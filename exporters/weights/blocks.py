"""What families have in common, from a config's ledger to what a spec says of it.

A builder returns plain mappings, as YAML would; None is "not said". Values that are the language's defaults may be given: `decoder`
takes them out. So a family is a mapping that says only what sets it apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from archspec.compiler.check.model import MOST_LAYERS
from archspec.compiler.grammar import Shape
from archspec.errors import WeightsError

from .config import Ledger, shown
from .entries import Block as Block
from .entries import stacked

Written = dict[str, Any]

#: The names that families have for one quantity.
WIDTH = "hidden_size|n_embd|n_embed|d_model"
DEPTH = "num_hidden_layers|n_layer|n_layers|num_layers"
HEADS = "num_attention_heads|n_head|n_heads|num_heads"
KV_HEADS = "num_key_value_heads|num_kv_heads"
LENGTH = "max_position_embeddings|n_positions|max_seq_len|n_ctx|max_sequence_length"
INNER = "intermediate_size|n_inner|ffn_dim|ffn_hidden_size|d_ff|dff"
ACTIVATION = "hidden_act|hidden_activation|activation_function|hidden_activation_function|activation"
RMS_EPS = "rms_norm_eps|norm_eps|layernorm_epsilon"
LAYER_EPS = "layer_norm_epsilon|layer_norm_eps|norm_epsilon|norm_eps|layernorm_epsilon"
EXPERTS = "num_local_experts|num_experts|n_routed_experts|moe_num_experts"
SHARED = "n_shared_experts|num_shared_experts"
TOP_K = "num_experts_per_tok|moe_topk|num_experts_per_token|moe_k"

#: Hugging Face's names of activations -> ours. Of several names of one function the first is written.
ACTIVATIONS = {
    "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh", "gelu_python_tanh": "gelu_tanh",
    "gelu": "gelu", "gelu_python": "gelu", "quick_gelu": "quick_gelu", "relu": "relu", "relu2": "relu_squared",
    "silu": "silu", "swish": "silu", "mish": "mish", "tanh": "tanh", "sigmoid": "sigmoid", "linear": "identity",
}  # fmt: skip


# -------------------------------------------------------------------------------------------------------- whole models


def decoder(
    c: Ledger,
    *,
    norm: Block,
    layers: Sequence[Block],
    tied: bool,
    embedding: Block | None = None,
    head: Block | None = None,
    stack: Block | None = None,
    length: int | None = None,
) -> Written:
    """A decoder with a language-model head.

    layers: what each layer says, first to last. tied: the family's default of tie_word_embeddings.
    stack: block keys of all layers and `final_norm`. length: the context, where the config does not say it under a usual name.
    """
    block, lm_head = stack or {}, {"tied": bool(c.get("tie_word_embeddings", tied)), **(head or {})}
    written = {
        "vocab_size": c.whole("vocab_size"),
        "context_length": length or c.get(LENGTH),
        "d_model": c.whole(WIDTH),
        "dtype": dtype(c),
        "norm": norm,
        "embedding": embedding,
        "decoder": {
            **{key: value for key, value in block.items() if key == "final_norm"},
            **stacked([said("block", {**block, **layer}) for layer in layers]),
        },
        "head": "none" if _bare(c) else lm_head,
        "dropout": dropout(c),
        "init": {"kind": "normal", "std": c.get("initializer_range", 0.02)},
    }
    c.known(is_encoder_decoder=False, add_cross_attention=False)
    return {key: value for key, value in said("top", written).items() if value not in ({}, {"kind": "normal"})}


def each(c: Ledger, block: Callable[[int], Block], key: str = DEPTH, layers: int | None = None) -> list[Block]:
    """One block a layer. key: says how many there are; `layers` is the family's default."""
    depth = c.whole(key, layers)
    if depth > MOST_LAYERS:
        raise WeightsError(f"the config has {depth:,} layers; the deepest models have hundreds.")
    return [block(i) for i in range(depth)]


def dropout(c: Ledger) -> Block:
    """Rates of dropping while training, under their usual names."""
    rates = {
        "embedding": c.get("embd_pdrop|embedding_dropout|embed_dropout", 0.0),
        "attention": c.get("attention_dropout|attn_pdrop|attention_probs_dropout_prob", 0.0),
        "residual": c.get("resid_pdrop|residual_dropout|hidden_dropout_prob|hidden_dropout|resid_dropout", 0.0),
    }
    return {site: float(rate) for site, rate in rates.items() if rate}


def _bare(c: Ledger) -> bool:
    """Is it a checkpoint of the body alone?"""
    names = c.get("architectures") or []
    return bool(names) and all(re.fullmatch(r"\w+(?<!LMHead)Model", name) for name in names)


def dtype(c: Ledger) -> str | None:
    said = c.get("dtype|torch_dtype")
    return said if said in ("bfloat16", "float16") else None


def said(owner: Any, value: Block) -> Block:
    """A mapping without what is None or the language's default. Norms keep their eps: published models disagree about it."""
    return _said(Shape("", {"": owner}), value)


def _said(shape: Shape, value: Block) -> Block:
    kind = value.get("kind", shape.default_kind) if shape.kinds else None
    owner = shape.owners.get(kind or "")
    fields = {} if isinstance(owner, str) or owner is None else owner.model_fields
    shapes = shape.keys_of(kind)
    out: Block = {}
    for key, part in value.items():
        if part is None:
            continue
        default = fields[key].default if key in fields and key not in ("kind", "eps") else None
        if part == default and type(part) in (type(default), int) and isinstance(part, int | float | str):
            continue
        out[key] = _said(shapes[key], part) if isinstance(part, dict) and key in shapes else part
    return out


# --------------------------------------------------------------------------------------------------------------- norms


def rmsnorm(c: Ledger, eps: float = 1e-6, weight: str = "w") -> Block:
    """The config's RMSNorm; `eps` is the family's default."""
    return {"kind": "rmsnorm", "eps": float(c.get(RMS_EPS, eps)), "weight": weight}


def layernorm(c: Ledger, eps: float = 1e-5, bias: bool = True) -> Block:
    """The config's LayerNorm; `eps` is the family's default."""
    return {"kind": "layernorm", "eps": float(c.get(LAYER_EPS, eps)), "bias": bias}


# ----------------------------------------------------------------------------------------------------------- attention


def grouped(c: Ledger, kv_heads: int | None = None, head_dim: int | None = None) -> Block:
    """heads, kv_heads and head_dim. The arguments are the family's defaults: as many as heads, and d_model / heads."""
    heads, each = c.whole(HEADS), channels(c, head_dim)
    kv = c.whole(KV_HEADS, kv_heads or heads)
    return {
        "heads": heads,
        "kv_heads": kv if kv != heads else None,
        "head_dim": each if each * heads != c.whole(WIDTH) else None,
    }


def channels(c: Ledger, head_dim: int | None = None) -> int:
    """Channels of a head; `head_dim` is the family's default, without one d_model / heads."""
    return c.whole("head_dim", head_dim or c.whole(WIDTH) // c.whole(HEADS))


def biases(**linears: Any) -> bool | list[str]:
    """`bias` from a switch for each of q, k, v, o (qkv is short for three)."""
    if "qkv" in linears:
        linears = {**dict.fromkeys("qkv", linears["qkv"]), **linears}
    named = [name for name in "qkvo" if linears.get(name)]
    return named if 0 < len(named) < 4 else bool(named)


def inverse_root(scalar: float) -> str:
    """The scale 1/sqrt(scalar), as it is published."""
    return f"1/sqrt({scalar:.12g})"


def layer_types(c: Ledger, default: Callable[[int], str] | None = None) -> list[str]:
    """`full_attention`, `sliding_attention` or `chunked_attention` for each layer; `default` says it where the config does not."""
    depth = c.whole(DEPTH)
    types = c.get("layer_types") or [default(i) if default else "full_attention" for i in range(depth)]
    legal = ("full_attention", "sliding_attention", "chunked_attention")
    if len(types) != depth or not set(types) <= set(legal):
        raise WeightsError(
            f"the config has layer_types: {shown(types)}, where {depth} of {', '.join(legal)} are meant."
        )
    return list(types)


def every(period: int) -> Callable[[int], str]:
    """The pattern of windows in which each `period`-th layer sees everything."""
    return lambda i: "sliding_attention" if (i + 1) % period else "full_attention"


# ----------------------------------------------------------------------------------------------------------------- ffn


def activation(name: str) -> str:
    """Our name of Hugging Face's activation."""
    if name not in ACTIVATIONS:
        raise WeightsError(f"the config has the activation {name}, which the language does not have.")
    return ACTIVATIONS[name]


def gated(c: Ledger, width: str = INNER, act: str = "silu", bias: bool = False, key: str = ACTIVATION) -> Block:
    """A gated ffn. `width` and `key` are the keys that say how wide and which activation; `act` is the family's default."""
    return {"kind": "gated", "width": c.whole(width), "activation": activation(c.get(key, act)), "bias": bias}


def mlp(c: Ledger, act: str, bias: bool = True) -> Block:
    """A plain ffn, four times the model's width where the config does not say; `act` is the family's default."""
    hidden = c.whole(INNER, 4 * c.whole(WIDTH))
    return {"kind": "mlp", "width": hidden, "activation": activation(c.get(ACTIVATION, act)), "bias": bias}


def moe(
    c: Ledger,
    expert: Block,
    router: Block,
    shared: int | None = None,
    top_k: int | None = None,
) -> Block:
    """A mixture of experts. `shared` is the width of the expert every token takes; top_k: where it is not one for all layers."""
    return {
        "kind": "moe",
        "experts": c.whole(EXPERTS),
        "top_k": top_k or c.whole(TOP_K),
        "expert": expert,
        "shared": {"width": shared} if shared else None,
        "router": router,
    }


def dense_or_sparse(c: Ledger, sparse: bool, router: Block, shared: int = 1) -> Block:
    """A layer's ffn: a dense one, or experts of another width, of which each token takes some. shared: the family's default."""
    c.ignore("intermediate_size")  # where no layer is dense
    if not sparse:
        return gated(c)
    expert = gated(c, "moe_intermediate_size")
    return moe(c, expert, router, shared=c.get(SHARED, shared) * expert["width"])


def expert_groups(c: Ledger, score: str, count: int = 1, keep: int = 1) -> Block | None:
    """Group-limited routing; nothing where the groups limit nothing. The numbers are the family's defaults."""
    count, keep = c.whole("n_group", count), c.whole("topk_group", keep)
    return {"count": count, "keep": keep, "score": score} if keep < count else None


def biased_router(c: Ledger, scale: float, groups: Block | None) -> Block:
    """Sigmoid scores, a bias that only selects, weights over their sum and scaled; `scale` is the family's default."""
    return {
        "score": "sigmoid",
        "selection_bias": "score",
        "groups": groups,
        "normalize": c.get("norm_topk_prob", True),
        "scale": float(c.get("routed_scaling_factor", scale)),
    }


def sparse_layers(c: Ledger, default: Callable[[int], bool]) -> list[bool]:
    """Which layers have experts, by mlp_layer_types; `default` says it where the config does not."""
    depth = c.whole(DEPTH)
    types = c.get("mlp_layer_types") or ["sparse" if default(i) else "dense" for i in range(depth)]
    if len(types) != depth or not set(types) <= {"dense", "sparse"}:
        raise WeightsError(f"the config has mlp_layer_types: {shown(types)}, where {depth} of dense, sparse are meant.")
    return [t == "sparse" for t in types]
