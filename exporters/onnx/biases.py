"""What is added to the scores for the distance between query and key, with the mask in it: `Attention` takes one of the two.

A distance is one of columns: all rows of a batch have the same, since what they are padded by on the left moves both ends.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from archspec.ops.words import Alibi, Buckets, Distances

from .graph import Builder


def biased(g: Builder, see: ir.Value, bias: ir.Value) -> ir.Value:
    """B 1 T S and H T S -> B H T S: the bias, and half of the lowest number where a query does not see a key.

    Not -inf, nor what a score could push that far: a row that sees nobody stays finite.
    """
    low = g.number(float(ml_dtypes.finfo(g.dtype.numpy()).min) / 2)  # type: ignore[no-untyped-call]
    return g.once(("biased", see, bias), lambda: g.op("Where", see, bias, low))


def alibi(g: Builder, see: ir.Value, bias: Alibi, scale: float) -> ir.Value:
    """H T S: -slope · |j - i|; `scale` is that of the scores, which the bias shares where it is added before it."""

    def make() -> ir.Value:
        by = -(scale if bias.scaled else 1.0)
        with g.precise():  # a distance has more digits than half of a float
            apart = g.op("Cast", g.op("Abs", _distances(g, see)), to=g.dtype.value)
            there = g.op("Mul", apart, g.number([[[by * slope]] for slope in bias.slopes()]))
        return g.halved(there)

    return g.once(("alibi", see, bias, scale if bias.scaled else None), make)


def bucketed(g: Builder, see: ir.Value, bias: Buckets, table: ir.Value) -> ir.Value:
    """H T S from the table, here H buckets: what it holds for the bucket of j - i."""

    def buckets() -> ir.Value:
        far, known = bias.max_distance, bias.of_distance()
        ahead = [known[d] + bias.count // 2 if bias.two_sided else 0 for d in range(1, far + 1)]
        return _of_distance(g, see, [*reversed(known), *ahead], far)

    at = g.once(("buckets", see, bias), buckets)
    return g.once(("bucketed", see, bias, table), lambda: g.op("Gather", table, at, axis=1))


def distance_rows(g: Builder, see: ir.Value, distances: Distances) -> ir.Value:
    """1 1 T S: the row of a table for i - j."""

    def make() -> ir.Value:
        known, end = distances.of_distance(), distances.rows - 1
        far = len(known) - 1
        behind = [min(distances.buckets + b, end) for b in known[1:]]
        ahead = [max(distances.buckets - b, 0) for b in known]
        rows = _of_distance(g, see, [*reversed(behind), *ahead], far, np.int32)
        return g.op("Unsqueeze", rows, g.const([0, 1]))

    return g.once(("rows", see, distances), make)


def _of_distance(g: Builder, see: ir.Value, said: list[int], far: int, dtype: Any = np.int64) -> ir.Value:
    """T S: what a list says of each j - i. Its ends are those of -far and far, on which all farther ones are too."""
    near = g.op("Clip", _distances(g, see), g.const(-far), g.const(far))
    return g.op("Gather", g.const(said, dtype), g.op("Add", near, g.const(far)))


def _distances(g: Builder, see: ir.Value) -> ir.Value:
    """T S: j - i. The queries are the last T of the S columns."""

    def make() -> ir.Value:
        length, total = (g.op("Squeeze", g.op("Shape", see, start=at, end=at + 1)) for at in (2, 3))
        j = g.op("Range", g.const(0), total, g.const(1))
        i = g.op("Range", g.op("Sub", total, length), total, g.const(1))
        return g.op("Sub", j, g.op("Unsqueeze", i, g.const([1])))

    return g.once(("distances", see), make)
