"""A tensor in heads, and its three forms.

Heads stay packed, B T H·C, until a word needs them apart: `Attention` and `RotaryEmbedding` read that form, so most graphs
have no transposition at all. What has been taken apart, B H T C, is a plain value.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from .graph import Builder


@dataclass(frozen=True)
class Heads:
    """B T H·C, to be read as B H T C."""

    packed: ir.Value
    heads: int


X = ir.Value | Heads


def plain(x: X) -> ir.Value:
    """A tensor that was never split into heads."""
    assert isinstance(x, ir.Value), "heads where a whole tensor is meant"
    return x


def rows(g: Builder, x: X) -> ir.Value:
    """... C with the channels of one head last: B T H C for packed heads."""
    if not isinstance(x, Heads):
        return x
    return g.once(("rows", x), lambda: g.op("Reshape", x.packed, g.const([0, 0, x.heads, -1])))


def packed(g: Builder, rows: ir.Value, heads: int) -> Heads:
    """B T H C, packed."""
    return Heads(g.op("Reshape", rows, g.const([0, 0, -1])), heads)


def gathered(g: Builder, apart: ir.Value, heads: int) -> Heads:
    """B H T C as it is, for words that need it apart; packed for the others, if there are any."""
    made = packed(g, g.op("Transpose", apart, perm=[0, 2, 1, 3]), heads)
    g.memo["apart", made] = apart
    return made


def like(g: Builder, x: X, y: ir.Value) -> X:
    """`y`, which was made from `rows(x)`, in the form of x."""
    return packed(g, y, x.heads) if isinstance(x, Heads) else y


def is_apart(g: Builder, x: X) -> bool:
    """Is it taken apart already, or never was packed?"""
    return not isinstance(x, Heads) or ("apart", x) in g.memo


def apart(g: Builder, x: X) -> ir.Value:
    """B H T C. One head needs no transposition."""
    if not isinstance(x, Heads):
        return x
    if x.heads == 1:
        return g.once(("apart", x), lambda: g.op("Unsqueeze", x.packed, g.const([1])))
    return g.once(("apart", x), lambda: g.op("Transpose", rows(g, x), perm=[0, 2, 1, 3]))


def merged(g: Builder, x: X) -> ir.Value:
    """B T H·C"""
    if isinstance(x, Heads):
        return x.packed
    return g.op("Reshape", g.op("Transpose", x, perm=[0, 2, 1, 3]), g.const([0, 0, -1]))


def split(g: Builder, x: X, widths: tuple[int, ...]) -> list[X]:
    """... ΣC -> ... C each, in the form of x."""
    parts = g.nodes("Split", len(widths), rows(g, x), g.const(widths), axis=-1)
    return [like(g, x, part) for part in parts]


def concat(g: Builder, a: X, b: X) -> Heads:
    """B H T C, B (H or 1) T C' -> B H T C + C'; in the form that a has."""
    assert isinstance(a, Heads)
    assert isinstance(b, Heads)
    if is_apart(g, a):
        beside = apart(g, b)
        if b.heads != a.heads:
            beside = g.op("Expand", beside, g.const([1, a.heads, 1, 1]))
        return gathered(g, g.op("Concat", apart(g, a), beside, axis=-1), a.heads)
    beside = rows(g, b)
    if b.heads != a.heads:
        beside = g.op("Expand", beside, g.const([1, 1, a.heads, 1]))
    return packed(g, g.op("Concat", rows(g, a), beside, axis=-1), a.heads)
