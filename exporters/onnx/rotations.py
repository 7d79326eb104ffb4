"""Numbers that depend on where a token stands: angles, and what stretches them; the temperature of a query.

All of it is worked out in float64 and rounded once. No tables: every length is right to the last bit, and a file holds no
number that its spec can give.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from archspec.ops.rotary import Dynamic, LongRope
from archspec.ops.words import Rope, Sinusoid, Temperature

from .graph import Builder

DOUBLE = ir.DataType.DOUBLE


def angles(
    g: Builder, positions: ir.Value, frequencies: Sequence[float] | ir.Value, magnitude: float = 1.0
) -> tuple[ir.Value, ir.Value]:
    """Cosine and sine of position · frequency, times the magnitude: B T -> B T n. Frequencies: n numbers, or B 1 n."""
    by = frequencies if isinstance(frequencies, ir.Value) else g.const(frequencies, np.float64)
    angle = g.op("Mul", _double(g, g.op("Unsqueeze", positions, g.const([2]))), by)
    cos, sin = (_rounded(g, _times(g, g.op(f, angle), magnitude)) for f in ("Cos", "Sin"))
    return cos, sin


def waves(g: Builder, positions: ir.Value, table: Sinusoid) -> ir.Value:
    """B T -> B T width: sine and cosine of each frequency, by turns or in halves."""
    cos, sin = angles(g, positions, table.frequencies())
    if table.halves:
        both = g.op("Concat", sin, cos, axis=-1)
    else:
        pairs = [g.op("Unsqueeze", each, g.const([3])) for each in (sin, cos)]
        both = g.op("Reshape", g.op("Concat", *pairs, axis=-1), g.const([0, 0, -1]))
    if table.width % 2:
        both = g.op("Slice", both, g.const([0]), g.const([table.width]), g.const([2]))
    return both


def turns(g: Builder, positions: ir.Value, rope: Rope) -> tuple[ir.Value, ir.Value]:
    """Cosine and sine for a rotation, B T dim/2; which one is left in their metadata."""

    def make() -> tuple[ir.Value, ir.Value]:
        both = angles(g, positions, _frequencies(g, positions, rope), rope.magnitude)
        for value, name in zip(both, ("cos", "sin"), strict=True):
            value.metadata_props["archspec.rope"] = f"{name} {rope}"
        return both

    return g.once(("turns", positions, rope), make)


def _frequencies(g: Builder, positions: ir.Value, rope: Rope) -> Sequence[float] | ir.Value:
    """Radians per position: dim/2 numbers, or B 1 dim/2 where each sequence's own length so far decides."""
    match rope.scaling:
        case LongRope(original_context=context) as scaling:
            long = g.op("Greater", _length(g, positions), g.const(context))
            tables = (scaling.longer(rope.theta, rope.dim), rope.frequencies())
            return g.op("Where", long, *(g.const(f, np.float64) for f in tables))
        case Dynamic(factor=factor, original_context=context) as scaling:
            past = g.op("Mul", _double(g, _length(g, positions)), g.const(factor / context, np.float64))
            growth = g.op("Max", g.op("Sub", past, g.const(factor - 1, np.float64)), g.const(1, np.float64))
            grown = g.op("Pow", growth, g.const(scaling.exponents(rope.dim), np.float64))
            return g.op("Mul", grown, g.const(rope.frequencies(), np.float64))
    return rope.frequencies()


def _length(g: Builder, positions: ir.Value) -> ir.Value:
    """B 1 1: how long each sequence is so far, by the last of its positions in this call."""
    last = g.op("ReduceMax", positions, g.const([1]))  # B 1
    return g.op("Add", g.op("Unsqueeze", last, g.const([2])), g.const(1))


def temperature(g: Builder, positions: ir.Value, t: Temperature) -> ir.Value:
    """1 + slope · ln(1 + floor((position + offset) / period)), or (1 + (position + offset) / period)^slope: B T -> B T 1."""

    def make() -> ir.Value:
        at = g.op("Max", g.op("Add", positions, g.const(t.offset)), g.const(0))  # padding is at -1
        if t.power:
            turns = g.op("Div", _double(g, at), g.const(t.period, np.float64))
            grown = g.op("Pow", g.op("Add", turns, g.const(1, np.float64)), g.const(t.slope, np.float64))
            return g.op("Unsqueeze", _rounded(g, grown), g.const([2]))
        periods = g.op("Div", at, g.const(t.period))
        log = g.op("Log", _double(g, g.op("Add", periods, g.const(1))))
        grown = g.op("Add", g.op("Mul", log, g.const(t.slope, np.float64)), g.const(1, np.float64))
        return g.op("Unsqueeze", _rounded(g, grown), g.const([2]))

    return g.once(("temperature", positions, t), make)


def _double(g: Builder, x: ir.Value) -> ir.Value:
    return g.op("Cast", x, to=DOUBLE.value)


def _rounded(g: Builder, x: ir.Value) -> ir.Value:
    return g.op("Cast", x, to=g.dtype.value)


def _times(g: Builder, x: ir.Value, by: float) -> ir.Value:
    return x if by == 1.0 else g.op("Mul", x, g.const(by, np.float64))
