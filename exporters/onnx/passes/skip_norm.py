"""A sum and the norm that reads it as one node: `com.microsoft.SkipSimplifiedLayerNormalization`, `SkipLayerNormalization`.

Where a graph computes in half of a float, that is: GPUs do, and their time goes into launches. In float32 it would cost. The CPU's
kernels of ONNX Runtime 1.31 take 1.3 times as long as a sum and an RMS norm for one token and 2.8 times for many, with a layer norm
3.5 and 8 times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import onnx_ir as ir

from ..graph import without_tail
from .fusion import Fusion
from .run import OrtRun

KERNELS = {
    "RMSNormalization": "SkipSimplifiedLayerNormalization",
    "LayerNormalization": "SkipLayerNormalization",
}


def fuse_skip_norms(run: OrtRun) -> Fusion | None:
    """Every norm of a sum of two tensors; the bias of a linear that is one of them goes along."""
    norms = [n for n in run.g.graph if n.op_type in KERNELS and n.inputs[0] in run.sums]
    if not norms:
        return None
    kernels = sorted({KERNELS[norm.op_type] for norm in norms})
    left: Counter[str] = Counter()
    biased = {p.y for p in run.products.values() if p.bias}
    for norm in norms:
        total = norm.inputs[0]
        assert total is not None
        reason = _unfit(run, norm, total)
        if reason:
            left[reason] += 1
        else:
            _fuse(run, norm, total, biased)
    return Fusion(" and ".join(kernels), "norms of a sum", len(norms) - left.total(), left)


def _unfit(run: OrtRun, norm: ir.Node, total: ir.Value) -> str | None:
    """Why the kernels do not compute this, or not as fast."""
    if not run.g.half:
        return "in float32 the CPU is faster with two nodes"
    if total not in run.sums:  # any longer
        return "another norm of the same sum"
    weights = norm.inputs[1:]
    if any(w is None or w.const_value is None or w.shape is None or len(w.shape) > 1 for w in weights):
        return "no weight of its own"
    return None


def _fuse(run: OrtRun, norm: ir.Node, total: ir.Value, biased: Collection[ir.Value]) -> None:
    g = run.g
    node = total.producer()
    assert node is not None
    given, bias = _without_bias(biased, *map(g.now, run.sums[total]))
    gamma, *beta = norm.inputs[1:]
    ins = without_tail([*given, gamma, *(beta or [None] * (norm.op_type == "LayerNormalization")), bias])
    epsilon = norm.attributes["epsilon"].as_float()
    with g.before(node):
        y, *unused, both = g.nodes(f"com.microsoft.{KERNELS[norm.op_type]}", 4, *ins, epsilon=epsilon)
    for value in unused:
        value.name = ""  # statistics, for a training
    g.swap(norm.outputs[0], y)
    g.swap(total, both)


def _without_bias(biased: Collection[ir.Value], a: ir.Value, b: ir.Value) -> tuple[list[ir.Value], ir.Value | None]:
    """Two tensors; of one that is a linear's, what it is before its bias, and the bias."""
    for one, other in ((a, b), (b, a)):
        node = one.producer()
        if one in biased and node:
            raw, bias = node.inputs
            assert raw is not None
            return [other, raw], bias
    return [a, b], None
