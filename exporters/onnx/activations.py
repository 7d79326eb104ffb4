"""Activations, elementwise."""

from __future__ import annotations

import onnx_ir as ir

from archspec.ops.words import Activation

from .graph import Builder


def activated(g: Builder, x: ir.Value, kind: Activation) -> ir.Value:
    """The activation of x; opset 23 has a node for most."""
    match kind:
        case "identity":
            return x
        case "relu_squared":
            y = g.op("Relu", x)
            return g.op("Mul", y, y)
        case "gelu":
            return g.op("Gelu", x, approximate="none")
        case "gelu_tanh" | "gelu_tanh_8":  # they differ by less than float32 holds
            return g.op("Gelu", x, approximate="tanh")
        case "quick_gelu":
            return g.op("Mul", x, g.op("Sigmoid", g.op("Mul", x, g.number(1.702))))
        case "silu":
            return g.op("Mul", x, g.op("Sigmoid", x))
        case _:
            return g.op(
                {"relu": "Relu", "mish": "Mish", "tanh": "Tanh", "sigmoid": "Sigmoid", "softplus": "Softplus"}[kind], x
            )


def xielu(g: Builder, x: ir.Value, positive: ir.Value, negative: ir.Value) -> ir.Value:
    """softplus(positive) · x² above 0, (1/2 + softplus(negative)) · (eˣ - 1 - x) below, plus x/2."""
    x, positive, negative = g.full(x), g.full(positive), g.full(negative)
    with g.precise():
        half = g.number(0.5)
        above = g.op("Mul", g.op("Softplus", positive), g.op("Mul", x, x))
        curve = g.op("Sub", g.op("Sub", g.op("Exp", g.op("Min", x, g.number(-1e-6))), g.number(1.0)), x)
        below = g.op("Mul", g.op("Add", g.op("Softplus", negative), half), curve)
        bent = g.op("Where", g.op("Greater", x, g.number(0.0)), above, below)
        y = g.op("Add", bent, g.op("Mul", x, half))
    return g.halved(y)


def blended(g: Builder, x: ir.Value, f: ir.Value, at: ir.Value, floor: float) -> ir.Value:
    """sqrt(max(1 - b², floor)) · x + b · f, b = sigmoid(at)"""
    at = g.full(at)
    with g.precise():
        b = g.op("Sigmoid", at)
        rest = g.op(
            "Mul", g.op("Sigmoid", g.op("Neg", at)), g.op("Add", b, g.number(1.0))
        )  # 1 - b², without cancellation
        kept = g.op("Sqrt", g.op("Max", rest, g.number(floor)))
    return g.op("Add", g.op("Mul", x, g.halved(kept)), g.op("Mul", f, g.halved(b)))
