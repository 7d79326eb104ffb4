"""Routers and experts.

Every expert is in the graph, whatever an example would have used: tokens are sorted by expert, each expert's run of rows goes
through its own copy of the body, and a run may be empty. A graph grows by a body an expert, and an idle body costs some
microseconds: for one token, 128 experts of width 256 as much as the 8 that work. One `Loop` over the runs that are not empty takes
0.6 of the time there, but must copy an expert's weights out of their stack before it uses them, and takes 1.5 to 2 times as long
for 128 tokens. ONNX Runtime has kernels that need neither: `passes/mixture.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from archspec.ops.words import Routing

from .graph import Builder
from .weights import Reader


def weights_of(
    g: Builder, name: str, experts: int, shape: tuple[int, ...], read: Reader, transposed: bool = False
) -> list[ir.Value]:
    """An initializer for each expert, `{name}.{e}`: a slice of one for all of them would be a second copy in memory.

    read: gives rows of all experts' matrices, one below the other, or of their vectors; `transposed`: as in `Builder.weight`.
    """

    def one(expert: int) -> ir.Value:
        at = f"{name}.{expert}"
        if len(shape) == 1:
            return g.weight(at, shape, lambda a, b: read(expert, expert + 1)[0, a:b])
        first = expert * shape[-1 if transposed else 0]
        return g.weight(at, shape, lambda a, b: read(first + a, first + b), transposed=transposed)

    return g.once(("experts", name), lambda: [one(e) for e in range(experts)])


def routed(g: Builder, logits: ir.Value, bias: ir.Value | None, r: Routing, experts: int) -> tuple[ir.Value, ir.Value]:
    """B T E -> the weights of the chosen experts and their numbers, B T k each."""
    if r.score == "sparsemixer":
        weights, chosen = _one_by_one(g, logits, r)
        return _weighted(g, weights, r), chosen
    scores = _score(g, logits, r)
    if bias is not None and r.bias_on == "score":
        selection = g.op("Add", scores, bias)
    else:  # in the order of the logits, where scores that saturate have none
        ranked = logits if bias is None else g.op("Add", logits, bias)
        selection = ranked if r.groups == 1 else _score(g, ranked, r)
    if r.groups > 1:
        selection = _kept(g, selection, r, experts)
    _, chosen = g.nodes("TopK", 2, selection, g.const([r.k]), axis=-1)
    return _weighted(g, g.op("GatherElements", scores, chosen, axis=-1), r), chosen


def _score(g: Builder, logits: ir.Value, r: Routing) -> ir.Value:
    return g.op("Softmax", logits, axis=-1) if r.score == "softmax" else g.op("Sigmoid", logits)


def _weighted(g: Builder, weights: ir.Value, r: Routing) -> ir.Value:
    if r.normalize:
        total = g.op("ReduceSum", weights, g.const([-1]))
        weights = g.op("Div", weights, g.op("Add", total, g.number(1e-20)))  # scores may all be 0
    if r.scale != 1.0:
        weights = g.op("Mul", weights, g.number(r.scale))
    return weights


def _one_by_one(g: Builder, logits: ir.Value, r: Routing) -> tuple[ir.Value, ir.Value]:
    """Each choice the best of those left, weighed among those left that are near it."""
    weights, chosen, left, out = [], [], logits, g.number(-np.inf)
    for _ in range(r.k):
        best, at = g.nodes("TopK", 2, left, g.const([1]), axis=-1)  # B T 1
        reach = g.op("Mul", g.op("Max", g.op("Abs", logits), best), g.number(r.within))
        near = g.op("LessOrEqual", g.op("Sub", best, logits), reach)
        shares = g.op("Softmax", g.op("Where", near, left, out), axis=-1)
        weights.append(g.op("GatherElements", shares, at, axis=-1))
        chosen.append(at)
        left = g.op("ScatterElements", left, at, g.op("Expand", out, g.op("Shape", at)), axis=-1)
    return g.op("Concat", *weights, axis=-1), g.op("Concat", *chosen, axis=-1)


def _kept(g: Builder, selection: ir.Value, r: Routing, experts: int) -> ir.Value:
    """B T E, with -inf for the experts outside the best groups."""
    grouped = g.op("Reshape", selection, g.const([0, 0, r.groups, experts // r.groups]))
    if r.group_score == "max":
        best = g.op("ReduceMax", grouped, g.const([-1]), keepdims=0)  # B T G
    else:
        two, _ = g.nodes("TopK", 2, grouped, g.const([min(2, experts // r.groups)]), axis=-1)
        best = g.op("ReduceSum", two, g.const([-1]), keepdims=0)
    _, groups = g.nodes("TopK", 2, best, g.const([r.keep]), axis=-1)  # B T keep
    hot = g.op("OneHot", groups, g.const(r.groups), g.const([0, 1]))  # B T keep G
    inside = g.op("Cast", g.op("ReduceMax", hot, g.const([2]), keepdims=0), to=ir.DataType.BOOL.value)
    inside = g.op("Unsqueeze", inside, g.const([3]))  # B T G 1
    return g.op("Reshape", g.op("Where", inside, grouped, g.number(-np.inf)), g.const([0, 0, experts]))


def mixed(
    g: Builder,
    x: ir.Value,
    weights: ir.Value,
    chosen: ir.Value,
    routing: Routing,
    experts: int,
    on_input: bool,
    body: Callable[[int, ir.Value], ir.Value],
) -> ir.Value:
    """B T D -> B T D: the chosen experts' sum. `body(e, rows)` is expert e on rows n D, n ≥ 0."""
    flat = g.op("Reshape", chosen, g.const([-1]))  # B·T·k: the expert of each pair of a token and a choice
    pairs = g.op("Shape", flat)
    _, order = g.nodes("TopK", 2, flat, pairs, axis=0, largest=0)  # the pairs, by expert
    tokens = g.op("Flatten", x, axis=2)  # B·T D
    rows = g.op("Gather", tokens, g.op("Div", order, g.const(routing.k)))
    if on_input:
        rows = g.op("Mul", rows, g.op("Gather", g.op("Reshape", weights, g.const([-1, 1])), order))
    ones = g.op("Expand", g.const([1]), pairs)
    sizes = g.op("ScatterElements", g.const([0] * experts), flat, ones, axis=0, reduction="add")
    runs = g.nodes("Split", experts, rows, sizes, axis=0)
    done = g.op("Concat", *(body(e, run) for e, run in enumerate(runs)), axis=0)
    done = g.op("ScatterND", done, g.op("Unsqueeze", order, g.const([1])), done)  # back in the order of the pairs
    done = g.op("Reshape", done, g.op("Concat", g.op("Shape", chosen), g.const([-1]), axis=0))  # B T k D
    if on_input:
        return g.op("ReduceSum", done, g.const([2]), keepdims=0)
    return g.op("Squeeze", g.op("MatMul", g.op("Unsqueeze", weights, g.const([2])), done), g.const([2]))
