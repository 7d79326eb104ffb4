"""What is written in a box: the operation's name and the few facts that tell it from its kind.

A new operation needs nothing here to be drawn: its component gives it a role, its leaves their shapes. A function registered
below makes its box say what matters.
"""

from __future__ import annotations

import math
from functools import singledispatch

from archspec.ops.attention import Attention, CrossAttention, Disentangled
from archspec.ops.base import Op
from archspec.ops.block import ResidualGate
from archspec.ops.embedding import LearnedPositions, SinusoidalPositions
from archspec.ops.ffn import Gated, Mlp
from archspec.ops.head import ClassifierHead, Head, LmHead, NoHead, PoolerHead
from archspec.ops.latent import LatentAttention
from archspec.ops.leaves import Linear, Table
from archspec.ops.moe import Moe
from archspec.ops.norms import L2Norm, LayerNorm, RMSNorm
from archspec.ops.rotary import LongRope, Ntk, Proportional, Rope, Scaling
from archspec.ops.words import Alibi, Buckets, Mask, Scores, Temperature

from .graph import Chip, Node, Role

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


def counted(node: Node) -> str:
    """The note and the parameters of a box."""
    return " + ".join(t for t in (node.note, human(node.parameters) if node.parameters else "") if t)


def active(node: Node) -> str:
    """The parameters of a box that one token uses, where they are not all of them."""
    return f"{human(node.parameters - node.idle)} active" if node.idle else ""


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
    position = _position(op.rope, op.head_dim, op.scores.bias, op.table_of_stack)
    position += _disentangled(op.disentangled) if op.disentangled else []
    extra = [*(["sinks"] * op.sinks), *_temperature(op.temperature)]
    return "Self-attention", (*_heads(op), *_mask(op.scores.mask), *position, *_projections(op), *extra)


@describe.register
def _(op: CrossAttention) -> tuple[str, tuple[str, ...]]:
    return "Cross-attention", (*_heads(op), *_projections(op))


@describe.register
def _(op: LatentAttention) -> tuple[str, tuple[str, ...]]:
    facts = [f"{op.heads:,} heads × ({op.nope:,} + {op.turning:,} rope)", f"v × {op.v_head_dim:,}"]
    facts += [f"q rank {op.q_rank:,}"] if op.q_rank else []
    facts.append(f"k/v rank {op.kv_rank:,}")
    norms = (("q", op.q_norm or not op.q_rank), ("k/v", op.kv_norm))
    facts += [f"no {name} norm" for name, there in norms if not there]
    facts += [*_mask(op.scores.mask), *_position(op.rope, op.turning), *_scores(op.scores, op.nope + op.turning)]
    facts += [*_temperature(op.temperature), f"caches {op.kv_rank + op.turning:,} a token"]
    return "Latent attention", tuple(facts)


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
        facts.append(f"window {'±' if mask.kind == 'full' else ''}{mask.window:,}")
    if mask.chunk:
        facts.append(f"chunk {mask.chunk:,}")
    return facts


def _position(rope: Rope | None, width: int, bias: Alibi | Buckets | None = None, of_stack: bool = False) -> list[str]:
    """How the positions come in; `width` is that of a head's part that may turn."""
    facts = []
    if rope:
        facts.append(f"rope θ {rope.theta:,.0f}" + ("" if rope.dim == width else f" on {rope.dim} of {width}"))
        facts += _scaling(rope.scaling)
    if isinstance(bias, Alibi):
        most = "" if bias.max_bias == 8.0 else f" up to {bias.max_bias:g}"
        facts.append(f"alibi{most}{' before scale' if bias.scaled else ''}")
    if isinstance(bias, Buckets):
        facts.append("relative positions" if of_stack else f"relative positions in {bias.count:,} buckets")
    return facts


def _disentangled(d: Disentangled) -> list[str]:
    terms = " and ".join(name for name, there in (("c2p", d.c2p), ("p2c", d.p2c)) if there)
    return [f"relative positions by {terms}", *(["own position q/k"] if d.own else [])]


def _scaling(scaling: Scaling | None) -> list[str]:
    match scaling:
        case None:
            return []
        case Ntk():
            return [f"ntk α {scaling.alpha:g}"]
        case Proportional():
            more = "" if scaling.factor == 1.0 else f" ×{scaling.factor:g}"
            return [f"{number(scaling.share)} of the pairs{more}"]
        case LongRope():
            return [f"longrope past {scaling.original_context:,}"]
    return [f"{type(scaling).__name__.lower()} ×{scaling.factor:g}"]


def _temperature(temperature: Temperature | None) -> list[str]:
    if temperature is None:
        return []
    growth = "to the power of " * temperature.power
    return [f"temperature {growth}{temperature.slope:g} per {temperature.period:,} tokens"]


def _projections(op: Attention | CrossAttention) -> list[str]:
    facts = []
    if op.qk_norm:
        site = " of the vector" if op.qk_norm.over == "vector" else " after rope" * op.qk_norm.at("head", "after_rope")
        facts.append(f"q/k norm{site}")
    norms = (("v norm", op.v_norm), ("head norm", op.head_norm), ("output norm", op.out_norm))
    facts += [name for name, norm in norms if norm]
    several = op.disentangled.terms if isinstance(op, Attention) and op.disentangled else 1
    facts += _scores(op.scores, op.head_dim * several)
    if op.clip:
        facts.append(f"clip ±{op.clip:g}")
    if op.gate:
        bias = "" if op.gate.bias == "none" else ", biased" + " per head" * op.gate.shared_bias
        facts.append(f"{op.gate.activation} gate{' per head' if op.gate.per_head else ''}{bias}")
    return facts + _bias(op.bias, 4)


def _scores(scores: Scores, width: int) -> list[str]:
    plain = math.isclose(scores.scale, width**-0.5, rel_tol=1e-9)
    facts = [] if plain else [f"scale {number(scores.scale)}"]
    return facts + ([f"softcap {scores.softcap:g}"] if scores.softcap else [])


def _bias(names: tuple[str, ...], all_of: int) -> list[str]:
    if not names:
        return []
    return ["bias"] if len(names) == all_of else [f"bias of {', '.join(names)}"]


def table(op: Attention) -> tuple[str, tuple[str, ...]]:
    """(title, facts) of the table that all layers of a stack look up."""
    if op.disentangled:
        d = op.disentangled.table
        facts = [f"{d.distances.rows:,} buckets × {d.width:,}", *(["normed"] if d.norm else [])]
    else:
        assert isinstance(op.scores.bias, Buckets)
        facts = [f"{op.scores.bias.count:,} buckets × {op.heads:,} heads"]
    return "Relative positions", (*facts, "one table for all layers")


# -------------------------------------------------------------------------------------------------------------- ffn


@describe.register
def _(op: Mlp) -> tuple[str, tuple[str, ...]]:
    facts = [f"{op.width:,} → {op.hidden:,} → {op.width:,}", op.activation, *_bias(op.bias, 2)]
    return "Feed-forward", (*facts, *(["inner norm"] if op.mid_norm else []))


@describe.register
def _(op: Gated) -> tuple[str, tuple[str, ...]]:
    facts = [f"{op.width:,} → {op.hidden:,} → {op.width:,}", f"gated {op.activation}", *_bias(op.bias, 3)]
    if op.clamp:
        facts.append(f"clamp {op.clamp:g}" + (" after it" if op.clamp_activated else ""))
    if op.up_shift:
        facts.append(f"up + {op.up_shift:g}")
    return "Feed-forward", (*facts, *(["inner norm"] if op.mid_norm else []))


@describe.register
def _(op: Moe) -> tuple[str, tuple[str, ...]]:
    facts = [f"{op.experts:,} experts, top {op.routing.k}", *describe(op.expert)[1]]
    if op.latent:
        facts.append(f"latent {op.latent:,}" + (", normed" if op.latent_norm else ""))
    if op.expert_norm:
        facts.append("experts normed")
    if op.shared:
        facts.append(f"shared expert {op.shared.hidden:,}" + (", gated" if op.shared_gate else ""))
    return "Mixture of experts", (*facts, *_router(op))


def _router(op: Moe) -> list[str]:
    r = op.routing
    facts = [f"{r.score} router"]
    if r.groups > 1:
        facts.append(f"best {r.keep} of {r.groups} groups")
    if op.selection_bias:
        facts.append("selection bias" + (" of logits" if r.bias_on == "logit" else ""))
    facts += [name for name, there in (("router bias", op.router_bias), ("normalized", r.normalize)) if there]
    if op.router_scale != 1.0:
        facts.append(f"router's x × {number(op.router_scale)}")
    if r.scale != 1.0:
        facts.append(f"weights × {number(r.scale)}")
    return [*facts, *(["weights on the input"] if op.weigh_input else [])]


def chips(op: Op) -> tuple[Chip, ...]:
    """The experts of a mixture: all of up to eight, or the first few and the last; some of them are chosen."""
    if not isinstance(op, Moe):
        return ()
    names = [str(i + 1) for i in range(op.experts)]
    shown = names if len(names) <= 8 else names[:5]
    chosen = min(op.routing.k, len(shown) if shown is names else 2)
    taken = {(2 * i + 1) * len(shown) // (2 * chosen) for i in range(chosen)}
    row: list[Chip] = [(name, "chosen" if i in taken else "idle") for i, name in enumerate(shown)]
    if shown is not names:
        row += [("…", "gap"), (names[-1], "chosen" if op.routing.k > chosen else "idle")]
    if op.shared:
        row.append(("shared", "always"))
    return tuple(row)


# ------------------------------------------------------------------------------------------- norms, embedding, heads


@describe.register
def _(op: LayerNorm) -> tuple[str, tuple[str, ...]]:
    facts = [*_weight(op.weight), *([] if op.bias else ["no bias"]), *(["σ + ε"] if op.eps_outside else [])]
    return "LayerNorm", tuple(facts)


@describe.register
def _(op: RMSNorm) -> tuple[str, tuple[str, ...]]:
    return "RMSNorm", (*_weight(op.weight), *(["weighed first"] if op.weight_first and op.weight != "none" else []))


@describe.register
def _(op: L2Norm) -> tuple[str, tuple[str, ...]]:
    return "L2 norm", ()


def _weight(kind: str) -> list[str]:
    return {"w": [], "1+w": ["1 + w"], "none": ["no weight"]}[kind]


@describe.register
def _(op: ResidualGate) -> tuple[str, tuple[str, ...]]:
    return "Residual gate b", ("b · f + √(1 − b²) · x",)


@describe.register
def _(op: PoolerHead) -> tuple[str, tuple[str, ...]]:
    return "Pooler", ("first token", f"{op.width:,} → {op.width:,}", op.activation, "bias")


@describe.register
def _(op: ClassifierHead) -> tuple[str, tuple[str, ...]]:
    pool = {"first": "first token", "last": "last token", "mean": "mean of the tokens", "tokens": "every token"}[
        op.pool
    ]
    facts = [pool]
    if op.transform:
        kind, bias = op.transform
        facts += [f"{op.width:,} → {op.width:,}", kind, *(["bias"] * bias), *(["norm"] if op.norm else [])]
    return "Classifier", (*facts, f"{op.width:,} → {op.labels:,} label{'s' * (op.labels != 1)}", *(["bias"] * op.bias))


def positions(position: LearnedPositions | SinusoidalPositions, width: int) -> tuple[str, tuple[str, ...]]:
    """(title, facts) of the positions that are added to the tokens."""
    offset = (f"offset {position.offset}",) if position.offset else ()
    if isinstance(position, LearnedPositions):
        return "Positions", (f"{position.rows:,} × {width:,}", "learned", *offset)
    return "Positions", ("sinusoidal", *offset)


def output(head: Head) -> tuple[str, tuple[str, ...]]:
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
