"""What encoder-decoders have in common: a config as a spec, and the names of tensors.

One config says both stacks, in keys of one (`encoder_layers`), of the other (`decoder_layers`), or of both (`d_model`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from archspec.errors import WeightsError
from archspec.ops.model import Model

from .blocks import WIDTH, Block, Written, dtype, said
from .config import Ledger
from .entries import hoisted, stacked
from .maps import Family, Rule, rule, under
from .transforms import Row

# ------------------------------------------------------------------------------------------------------------- a config


def encoder_decoder(
    c: Ledger,
    *,
    norm: Block,
    encoder: Sequence[Block],
    decoder: Sequence[Block],
    head: Block,
    length: int | None,
    width: int | None = None,
    embedding: Block | None = None,
    rates: Block | None = None,
    init: Block | str | None = None,
) -> Written:
    """An encoder beside a decoder, or the encoder alone where the config's class is one.

    encoder, decoder: what each layer says, first to last; what both stacks say is written once. head: the language-model head.
    width: where the config does not say it under a usual name. rates: of dropping, by their sites.
    """
    kind = _class(c)
    stacks = {"encoder": encoder, "decoder": decoder} if kind != "encoder" else {"encoder": encoder}
    folded = {name: stacked([said("block", layer) for layer in layers]) for name, layers in stacks.items()}
    if kind == "encoder":
        embedding = {key: value for key, value in (embedding or {}).items() if key != "share"}
    else:
        depths = [stack.pop("layers") for stack in folded.values()]
        block, rows = hoisted(list(folded.values()))
        folded = {
            "block": block,
            **{name: {"layers": n, **row} for name, n, row in zip(folded, depths, rows, strict=True)},
        }
    # a body alone has all of a head that is its token table
    bare = kind == "encoder" or (kind == "body" and not head["tied"])
    written = {
        "vocab_size": c.whole("vocab_size"),
        "context_length": length,
        "d_model": width or c.whole(WIDTH),
        "dtype": dtype(c),
        "norm": norm,
        "embedding": embedding,
        **folded,
        "head": "none" if bare else head,
        "dropout": {site: float(rate) for site, rate in (rates or {}).items() if rate},
        "init": init,
    }
    return {key: value for key, value in said("top", written).items() if value not in ({}, {"kind": "normal"})}


def _class(c: Ledger) -> str:
    """What the config's class has: the `head` of a language model, the `body` without one, the `encoder` alone."""
    name = c.architecture("ForConditionalGeneration")
    if name.endswith("EncoderModel"):
        c.ignore("is_encoder_decoder", "is_decoder")  # whatever they say, such a class has the one stack
        return "encoder"
    headed = name.endswith(("ForConditionalGeneration", "MTModel", "LMHeadModel"))
    if not headed and not re.fullmatch(r"\w+Model", name):
        raise WeightsError(f"the config has architectures: {name}; this map has an encoder with its decoder, or alone.")
    c.known(is_encoder_decoder=True, is_decoder=False)
    return "head" if headed else "body"


# -------------------------------------------------------------------------------------------------------------- names


def encoder_decoder_family(
    name: str,
    read: Callable[[Ledger], Written],
    layer: Sequence[Rule],
    *,
    encoder: Sequence[Rule] = (),
    decoder: Sequence[Rule] = (),
    types: tuple[str, ...] = (),
    write: Callable[[Model, int | None], Written] | None = None,
    base: str = "",
    layers: str = "layers.{i}.",
    stack: Sequence[Rule] = (),
    final: str = "layer_norm",
    buffers: tuple[str, ...] = (),
) -> Family:
    """Two stacks whose layers' names are `layer`, and what only one stack's have; the rest under the usual names.

    types: by default the family's name. stack: further rules of each stack, names below `encoder.` and `decoder.`.
    buffers (below each stack) are no weights.
    """
    both = {
        side: (*under("layers.{i}.", layers, (*layer, *own)), *stack, rule("final_norm.*", f"{final}.*"))
        for side, own in (("encoder", encoder), ("decoder", decoder))
    }
    return Family(
        name=name,
        types=types or (name,),
        read=read,
        write=write,
        base=base,
        body=(
            rule("decoder.embedding.tokens.weight", "shared.weight", copies="decoder.embed_tokens.weight"),
            rule("encoder.embedding.tokens.weight", "encoder.embed_tokens.weight", copies="shared.weight"),
            *(r for side, rules in both.items() for r in under(f"{side}.", f"{side}.", rules)),
        ),
        heads={"lm": (rule("head.out.weight", "lm_head.weight"), rule("head.out.bias", "final_logits_bias", Row()))},
        buffers=tuple(f"{side}.{name}" for side in both for name in buffers),
        idle=("final_logits_bias",),
    )
