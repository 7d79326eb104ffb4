"""What is written in a box: the operation's name and the few facts that tell it from its kind.

A new operation needs nothing here to be drawn: its component gives it a role, its leaves their shapes. A function registered
below makes its box say what matters.
"""

from __future__ import annotations

import math
from functools import singledispatch

from archspec.ops.attention import Attention, CrossAttention
from archspec.ops.base import Op
from archspec.ops.embedding import LearnedPositions, SinusoidalPositions
from archspec.ops.ffn import Gated, Mlp
from archspec.ops.head import ClassifierHead, LmHead, NoHead, PoolerHead
from archspec.ops.leaves import Linear, Table
from archspec.ops.norms import L2Norm, LayerNorm, RMSNorm
from archspec.ops.words import Mask

from .graph import Role

ROLES: dict[str, Role] = {
    "attention": "attention",
    "cross_attention": "attention",
    "ffn": "ffn",
    "norm": "norm",
    "head": "head",
}


def role(op: Op) -> Role:
    """The role of an operation's box."""
    return ROLES.get(op.component, "layer")


def human(n: int) -> str:
    """2.36M: three significant digits, powers of a thousand."""
    for power, unit in ((12, "T"), (9, "B"), (6, "M"), (3, "k")):
        if n >= 10**power * 0.9995:
            x = n / 10**power
            return f"{x:.2f}{unit}" if x < 9.995 else f"{x:.1f}{unit}" if x < 99.95 else f"{x:.0f}{unit}"
    return str(n)


def number(x: float) -> str:
    """A factor as an author would write it: 2, √768, 1/8, 1/√64, or four digits."""
    if x < 0:
        return f"−{number(-x)}"
    for sign, y in (("", x), ("1/", 1 / x if x else math.inf)):
        if math.isfinite(y) and y >= 1:
            if math.isclose(y, round(y), rel_tol=1e-9):
                return f"{sign}{round(y):,}"
            if math.isclose(y * y, round(y * y), rel_tol=1e-9) and round(y * y) < 10**6 and f"{x:.4g}" != repr(x):
                return f"{sign}√{round(y * y):,}"
    return f"{x:.4g}"


@singledispatch
def describe(op: Op) -> tuple[str, tuple[str, ...]]:
    """(title, facts) of an operation's box."""
    shapes = (f"{name} {_shape(leaf)}" for name, leaf in op.leaves().items())
    return type(op).__name__, tuple(s for s in shapes if s[-1] != " ")


def _shape(leaf: object) -> str:
    match leaf:
        case Linear():
            return f"{leaf.inp:,} → {leaf.out:,}"
        case Table():
            return f"{leaf.rows:,} × {leaf.width:,}"
    return ""


# -------------------------------------------------------------------------------------------------------- attention


@describe.register
def _(op: Attention) -> tuple[str, tuple[str, ...]]:
    return "Self-attention", (*_heads(op), *_mask(op.scores.mask), *_position(op), *_scores(op))


@describe.register
def _(op: CrossAttention) -> tuple[str, tuple[str, ...]]:
    return "Cross-attention", (*_heads(op), *_scores(op))


def _heads(op: Attention | CrossAttention) -> list[str]:
    facts = [f"{op.heads:,} heads × {op.head_dim:,}"]
    if op.kv_heads != op.heads:
        facts.append(f"{op.kv_heads:,} k/v head{'s' * (op.kv_heads != 1)}")
    if op.v_head_dim != op.head_dim:
        facts.append(f"v × {op.v_head_dim:,}")
    return facts


def _mask(mask: Mask) -> list[str]:
    facts = [{"causal": "causal", "prefix": "prefix", "full": "bidirectional"}[mask.kind]]
    if mask.window:
        facts.append(f"window {mask.window:,}")
    if mask.chunk:
        facts.append(f"chunk {mask.chunk:,}")
    return facts


def _position(op: Attention) -> list[str]:
    if not op.rope:
        return []
    part = "" if op.rope.dim == op.head_dim else f" on {op.rope.dim} of {op.head_dim}"
    return [f"rope θ {op.rope.theta:,.0f}{part}"]


def _scores(op: Attention | CrossAttention) -> list[str]:
    facts = []
    if op.qk_norm:
        facts.append("q/k norm" + (" of the vector" if op.qk_norm.over == "vector" else ""))
    facts += [name for name, norm in (("v norm", op.v_norm), ("output norm", op.out_norm)) if norm]
    if not math.isclose(op.scores.scale, op.head_dim**-0.5, rel_tol=1e-9):
        facts.append(f"scale {number(op.scores.scale)}")
    if op.scores.softcap:
        facts.append(f"softcap {op.scores.softcap:g}")
    if op.clip:
        facts.append(f"clip ±{op.clip:g}")
    return facts + _bias(op.bias, 4)


def _bias(names: tuple[str, ...], all_of: int) -> list[str]:
    if not names:
        return []
    return ["bias"] if len(names) == all_of else [f"bias of {', '.join(names)}"]


# -------------------------------------------------------------------------------------------------------------- ffn


@describe.register
def _(op: Mlp) -> tuple[str, tuple[str, ...]]:
    facts = [f"{op.width:,} → {op.hidden:,} → {op.width:,}", op.activation, *_bias(op.bias, 2)]
    return "Feed-forward", (*facts, *(["inner norm"] if op.mid_norm else []))


@describe.register
def _(op: Gated) -> tuple[str, tuple[str, ...]]:
    facts = [f"{op.width:,} → {op.hidden:,} → {op.width:,}", f"gated {op.activation}", *_bias(op.bias, 3)]
    if op.clamp:
        facts.append(f"clamp {op.clamp:g}")
    if op.up_shift:
        facts.append(f"up + {op.up_shift:g}")
    return "Feed-forward", (*facts, *(["inner norm"] if op.mid_norm else []))


# ------------------------------------------------------------------------------------------- norms, embedding, heads


@describe.register
def _(op: LayerNorm) -> tuple[str, tuple[str, ...]]:
    facts = [*_weight(op.weight), *([] if op.bias else ["no bias"]), *(["σ + ε"] if op.eps_outside else [])]
    return "LayerNorm", tuple(facts)


@describe.register
def _(op: RMSNorm) -> tuple[str, tuple[str, ...]]:
    return "RMSNorm", tuple(_weight(op.weight))


@describe.register
def _(op: L2Norm) -> tuple[str, tuple[str, ...]]:
    return "L2 norm", ()


def _weight(kind: str) -> list[str]:
    return {"w": [], "1+w": ["1 + w"], "none": ["no weight"]}[kind]


@describe.register
def _(op: PoolerHead) -> tuple[str, tuple[str, ...]]:
    return "Pooler", ("first token", f"{op.width:,} → {op.width:,}", op.activation, "bias")


@describe.register
def _(op: ClassifierHead) -> tuple[str, tuple[str, ...]]:
    pool = {"first": "first token", "last": "last token", "mean": "mean of the tokens", "tokens": "every token"}[
        op.pool
    ]
    return "Classifier", (pool, f"{op.width:,} → {op.labels:,} label{'s' * (op.labels != 1)}", *(["bias"] * op.bias))


def positions(position: LearnedPositions | SinusoidalPositions, width: int) -> tuple[str, tuple[str, ...]]:
    """(title, facts) of the positions that are added to the tokens."""
    offset = (f"offset {position.offset}",) if position.offset else ()
    if isinstance(position, LearnedPositions):
        return "Positions", (f"{position.rows:,} × {width:,}", "learned", *offset)
    return "Positions", ("sinusoidal", *offset)


def output(head: Op) -> tuple[str, tuple[str, ...]]:
    """(title, shape) of what a head gives."""
    match head:
        case LmHead():
            return "Logits", (f"B × T × {head.vocab:,}",)
        case ClassifierHead():
            return "Logits", (f"B × {'T × ' * (head.pool == 'tokens')}{head.labels:,}",)
        case PoolerHead():
            return "Pooled state", (f"B × {head.width:,}",)
        case NoHead():
            return "Hidden states", (f"B × T × {head.width:,}",)
    return "Output", ()
