"""Attention as a node of its own, and spelt out where opset 23 has no port for what it needs.

How an attention was written is left in the metadata of its result: `archspec.attention` is `fused`, or `explicit` and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from archspec.ops.words import Scores

from .graph import Builder
from .heads import Heads, X, apart, gathered, is_apart


def fused(
    g: Builder, q: X, k: X, v: X, see: ir.Value, scores: Scores, past: Sequence[ir.Value]
) -> tuple[X, Sequence[ir.Value]]:
    """B H T C' by `Attention`, and the present keys and values where there are past ones. `see`: a mask, or a bias with it."""
    options: dict[str, Any] = {"scale": scores.scale}
    if scores.softcap:
        options["softcap"] = scores.softcap
    if isinstance(q, Heads) and isinstance(k, Heads) and isinstance(v, Heads) and not is_apart(g, k):
        ins = [q.packed, k.packed, v.packed]
        options |= {"q_num_heads": q.heads, "kv_num_heads": k.heads}
    else:
        ins = [apart(g, x) for x in (q, k, v)]
    if g.half:
        options["softmax_precision"] = ir.DataType.FLOAT.value
    out, *present = g.nodes("Attention", 3 if past else 1, *ins, see, *past, **options)
    out.metadata_props["archspec.attention"] = "fused"
    return Heads(out, q.heads) if isinstance(q, Heads) and "q_num_heads" in options else out, present


def explicit(
    g: Builder,
    q: Heads,
    k: ir.Value,
    v: ir.Value,
    kv_heads: int,
    joined: ir.Value | None,
    added: ir.Value,
    scores: Scores,
    why: str,
    sinks: ir.Value | None,
) -> Heads:
    """B H T C' by nodes, for the reason `why`. k: B K S C, v: B K S C', the past included.

    joined: B H T S, what joins the products before a cap. added: B H T S or B 1 T S, bias and mask as numbers.
    sinks (H): one more logit a head, whose share of the softmax gives nothing.
    The query heads that share a key head are more rows of its queries: keys are read once, as they lie.
    """
    scaled = g.op("Mul", apart(g, q), g.number(scores.scale))
    grouped, spread = g.const([0, kv_heads, -1, 0]), g.const([0, q.heads, -1, 0])
    s = g.op("MatMul", g.op("Reshape", scaled, grouped), g.op("Transpose", k, perm=[0, 1, 3, 2]))  # B K H/K·T S
    s = g.op("Reshape", s, spread)  # B H T S
    if joined is not None:
        s = g.op("Add", s, joined)
    if scores.softcap:
        cap = g.number(scores.softcap)
        s = g.op("Mul", g.op("Tanh", g.op("Div", s, cap)), cap)
    s = g.op("Add", s, added)
    if sinks is not None:
        rows = g.op("Concat", g.op("Shape", s, end=3), g.const([1]), axis=0)
        s = g.op("Concat", s, g.op("Expand", g.op("Reshape", sinks, g.const([1, -1, 1, 1])), rows), axis=-1)
    a = g.halved(g.op("Softmax", g.full(s), axis=-1))
    if sinks is not None:
        a = g.op("Slice", a, g.const([0]), g.const([-1]), g.const([-1]))
    y = g.op("Reshape", g.op("MatMul", g.op("Reshape", a, grouped), v), spread)
    y.metadata_props["archspec.attention"] = f"explicit: {why}"
    return gathered(g, y, q.heads)


def related(g: Builder, x: X, y: X) -> ir.Value:
    """B H T C, B H S C -> B H T S: every row of x times every row of y; the side of fewer heads stands for several."""
    assert isinstance(x, Heads)
    assert isinstance(y, Heads)
    most = max(x.heads, y.heads)
    a, b = (apart(g, side) if side.heads == most else _repeated(g, side, most) for side in (x, y))
    return g.op("MatMul", a, g.op("Transpose", b, perm=[0, 1, 3, 2]))


def _repeated(g: Builder, x: Heads, heads: int) -> ir.Value:
    """B K T C -> B H T C: each head as often as it serves another one."""
    return g.op("Gather", apart(g, x), g.const([h * x.heads // heads for h in range(heads)]), axis=1)


def picked(g: Builder, x: ir.Value, heads: int, at: ir.Value, axis: int) -> ir.Value:
    """B H R S (axis 2) or B H T R (axis 3), 1 1 T S -> B H T S: of each column (or row) of x the number that `at` says."""

    def spread() -> ir.Value:
        shape = g.op("Concat", g.op("Shape", x, end=2), g.op("Shape", at, start=2), axis=0)
        return g.op("Expand", at, shape)

    return g.op("GatherElements", x, g.once(("spread", at, heads), spread), axis=axis)
