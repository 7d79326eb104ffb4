"""T5 with its head scaled and tied (1.0) or its own (1.1, Flan), mT5, and UMT5 with a table of distances a layer."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from archspec.errors import WeightsError
from archspec.ops.ffn import Gated
from archspec.ops.head import LmHead
from archspec.ops.model import Model
from archspec.ops.words import Buckets

from ..blocks import DEPTH, HEADS, LENGTH, WIDTH, Block, Written, activation, each
from ..compare import same
from ..config import Ledger, shown
from ..maps import Rule, rule
from ..seq2seq import encoder_decoder, encoder_decoder_family
from ..write import activation_name, config, eps, layers


def read(c: Ledger) -> Written:
    """T5Config."""
    return _read(c, "relu", _scaled(c))


def read_mt5(c: Ledger) -> Written:
    """MT5Config: the head is never scaled."""
    return _read(c, "gated-gelu", scaled=False)


def read_umt5(c: Ledger) -> Written:
    """UMT5Config: as T5's, with a table of distances in each layer."""
    return _read(c, "gated-gelu", _scaled(c), table="per_layer")


def _scaled(c: Ledger) -> bool:
    """Published configs say by `tie_word_embeddings: false` that the head is its own, and is not scaled."""
    return bool(c.stated("scale_decoder_outputs", c.get("tie_word_embeddings", True) is not False))


def _read(c: Ledger, ffn: str, scaled: bool, table: str = "per_stack") -> Written:
    """`ffn` is the family's default of feed_forward_proj."""
    c.ignore("scalable_attention")  # no class reads it
    heads, wide, rate = c.whole(HEADS, 8), c.whole("d_kv|head_dim", 64), c.get("dropout_rate", 0.1)
    buckets = {
        "kind": "relative_buckets",
        "buckets": c.whole("relative_attention_num_buckets", 32),
        "max_distance": c.whole("relative_attention_max_distance", 128),
        "table": table,
    }
    block = {
        "attention": {
            "heads": heads,
            "head_dim": wide if wide * heads != c.whole(WIDTH) else None,
            "scale": 1,
            "position": buckets,
        },
        "ffn": _ffn(c, ffn),
    }
    return encoder_decoder(
        c,
        norm={"kind": "rmsnorm", "eps": float(c.get("layer_norm_epsilon", 1e-6))},
        encoder=each(c, lambda i: block),
        decoder=each(c, lambda i: block, "num_decoder_layers", c.whole(DEPTH)),
        head={"tied": _tied(c), "scale": "1/sqrt(d_model)" if scaled else None},
        length=c.get(LENGTH),
        rates=dict.fromkeys(("embedding", "attention", "ffn", "residual"), rate),
        init="fan_in",
    )


def _ffn(c: Ledger, default: str) -> Block:
    """feed_forward_proj says it, unless the keys that a class makes of it are there too: they are saved, and read back."""
    said = c.get("feed_forward_proj", default)
    kind, _, act = said.rpartition("-")
    if kind not in ("", "gated"):
        raise WeightsError(f"the config has feed_forward_proj: {shown(said)}, where relu or gated-gelu is meant.")
    if said == "gated-gelu":
        act = "gelu_new"  # the approximation, which this name means here
    act, gated = c.get("dense_act_fn", act), c.get("is_gated_act", kind == "gated")
    return {"kind": "gated" if gated else "mlp", "width": c.whole("d_ff"), "activation": activation(act)}


def _tied(c: Ledger) -> bool:
    """Is the head the token table? The tensors know it: transformers 5 says so whatever it is."""
    said = bool(c.get("tie_word_embeddings", True))
    if c.weights is None:
        return said
    both = {"lm_head.weight", "shared.weight"} <= set(c.names)
    return same(c.weights, "lm_head.weight", "shared.weight") if both else "lm_head.weight" not in c.names


def write(model: Model, context_length: int | None, kind: str = "t5", name: str = "T5") -> Written:
    """T5Config of a model, or of an encoder alone."""
    first = layers(model, kind, "encoder")
    last = first if model.form == "encoder" else layers(model, kind, "decoder")
    attention, ffn, head = first.attention, first.ffn, model.head
    buckets = attention.scores.bias
    if not isinstance(buckets, Buckets):
        raise WeightsError(f"the {kind} form has relative buckets.")
    act = activation_name(ffn.activation)
    values = {
        **({"n_positions": context_length} if context_length else {}),
        "d_model": attention.width,
        "d_kv": attention.head_dim,
        "d_ff": ffn.hidden,
        "num_layers": len(first.stack.layers),
        "num_decoder_layers": len(last.stack.layers),
        "num_heads": attention.heads,
        "relative_attention_num_buckets": buckets.count,
        "relative_attention_max_distance": buckets.max_distance,
        "feed_forward_proj": f"gated-{'gelu' if act == 'gelu_new' else act}" if isinstance(ffn, Gated) else act,
        "layer_norm_epsilon": eps(first.stack.final_norm),
        "dropout_rate": first.stack.embedding.dropout,
        "tie_word_embeddings": not isinstance(head, LmHead) or head.tied,
        "scale_decoder_outputs": isinstance(head, LmHead) and head.scale != 1.0,
    }
    alone = "Encoder" if model.form == "encoder" else ""
    return config(model, kind, name + alone, "ForConditionalGeneration", values)


def _ffn_rules(at: str) -> tuple[Rule, ...]:
    """The last sublayer's; a gated one is wi_0 and wi_1."""
    dense = f"{at}.DenseReluDense"
    return (
        rule("ffn_input_norm.*", f"{at}.layer_norm.*"),
        rule("ffn.gate.* ffn.up.*", f"{dense}.wi_0.* {dense}.wi_1.*"),
        rule("ffn.up.*", f"{dense}.wi.*"),
        rule("ffn.down.*", f"{dense}.wo.*"),
    )


T5 = encoder_decoder_family(
    "t5",
    read,
    (
        rule("attention_input_norm.*", "layer.0.layer_norm.*"),
        *(rule(f"attention.{x}.*", f"layer.0.SelfAttention.{x}.*") for x in "qkvo"),
        rule("attention.table.weight", "layer.0.SelfAttention.relative_attention_bias.weight"),
    ),
    encoder=_ffn_rules("layer.1"),
    decoder=(
        rule("cross_attention_input_norm.*", "layer.1.layer_norm.*"),
        *(rule(f"cross_attention.{x}.*", f"layer.1.EncDecAttention.{x}.*") for x in "qkvo"),
        *_ffn_rules("layer.2"),
    ),
    write=write,
    layers="block.{i}.",
    final="final_layer_norm",
    buffers=("block.0.layer.1.EncDecAttention.relative_attention_bias.weight",),  # of old files; nothing reads it
)
FAMILIES = (
    T5,
    replace(T5, name="mt5", types=("mt5",), read=read_mt5, write=None),
    replace(T5, name="umt5", types=("umt5",), read=read_umt5, write=partial(write, kind="umt5", name="UMT5")),
)
