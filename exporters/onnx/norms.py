"""Norms of the last axis. Heads are normed one by one; a weight for each head, H C, comes after the norm."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from .graph import Builder
from .heads import X, like, rows

Norm = Callable[[ir.Value, ir.Value, ir.Value | None], ir.Value]
"""x, weight (C), bias (C) or None"""


def rms_norm(g: Builder, x: X, weight: ir.Value | None, eps: float) -> X:
    """x / sqrt(mean x² + eps) · weight"""

    def norm(x: ir.Value, weight: ir.Value, bias: ir.Value | None) -> ir.Value:
        return g.op("RMSNormalization", x, weight, axis=-1, epsilon=eps)

    return _normed(g, norm, x, weight, None)


def layer_norm(g: Builder, x: X, weight: ir.Value | None, bias: ir.Value | None, eps: float, outside: bool) -> X:
    """(x - mean) / sqrt(var + eps) · weight + bias; outside: / (sqrt(var) + eps)"""

    def norm(x: ir.Value, weight: ir.Value, bias: ir.Value | None) -> ir.Value:
        inputs = (x, weight, bias) if bias else (x, weight)
        return g.op("LayerNormalization", *inputs, axis=-1, epsilon=eps)

    def outside_norm(x: ir.Value, weight: ir.Value, bias: ir.Value | None) -> ir.Value:
        last, x = g.const([-1]), g.full(x)
        centred = g.op("Sub", x, g.op("ReduceMean", x, last))
        std = g.op("Sqrt", g.op("ReduceMean", g.op("Mul", centred, centred), last))
        with g.precise():
            least = g.number(eps)
        y = g.op("Mul", g.halved(g.op("Div", centred, g.op("Add", std, least))), weight)
        return g.op("Add", y, bias) if bias else y

    return _normed(g, outside_norm if outside else norm, x, weight, bias)


def l2_norm(g: Builder, x: X, eps: float) -> X:
    """x / max(‖x‖, eps)"""
    each = g.full(rows(g, x))
    with g.precise():
        least = g.number(eps)
    length = g.op("Max", g.op("ReduceL2", each, g.const([-1])), least)
    return like(g, x, g.halved(g.op("Div", each, length)))


def _normed(g: Builder, norm: Norm, x: X, weight: ir.Value | None, bias: ir.Value | None) -> X:
    each = rows(g, x)
    if any(v and v.shape and len(v.shape) > 1 for v in (weight, bias)):
        y = norm(each, _ones(g, each), None)
        y = g.op("Mul", y, weight) if weight else y
        y = g.op("Add", y, bias) if bias else y
    else:
        y = norm(each, weight or _ones(g, each), bias)
    return like(g, x, y)


def _ones(g: Builder, x: ir.Value) -> ir.Value:
    """A weight of 1 for each channel: a single 1 is legal, and ONNX Runtime's fused norms do not take it."""
    return g.op("Expand", g.number([1.0]), g.op("Shape", x, start=-1))
