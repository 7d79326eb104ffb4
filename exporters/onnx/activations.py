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
        case "gelu" | "gelu_tanh":
            return g.op("Gelu", x, approximate="tanh" if kind == "gelu_tanh" else "none")
        case "quick_gelu":
            return g.op("Mul", x, g.op("Sigmoid", g.op("Mul", x, g.number(1.702))))
        case "silu":
            return g.op("Mul", x, g.op("Sigmoid", x))
        case _:
            return g.op(
                {"relu": "Relu", "mish": "Mish", "tanh": "Tanh", "sigmoid": "Sigmoid", "softplus": "Softplus"}[kind], x
            )
