"""Where tokens stand, and who sees whom: facts that a graph works out from its 0/1 masks.

Two ways of counting a token's position: `unpadded` counts the tokens before it, `every` the columns since its row's first
token. Masks are measured in columns, so that a window spans a fixed number of them and a cache may drop the others.
"""

from __future__ import annotations

import onnx_ir as ir

from archspec.ops.leaves import Stream
from archspec.ops.words import Counting, Mask, Pool

from .graph import INT64, Builder


class Places:
    """The positions in one graph. With `cached` the tokens of a call are the last columns of their mask."""

    def __init__(self, builder: Builder, cached: bool) -> None:
        self.g, self.cached = builder, cached

    def mask(self, stream: Stream) -> ir.Value:
        """B S: the 0/1 mask over every column of a stream, an input."""
        if stream == "source":
            return self.g.input("source_mask", INT64, ["batch", "source"])
        return self.g.input("attention_mask", INT64, ["batch", "total" if self.cached else "length"])

    def length(self) -> ir.Value:
        """T, as a vector of one number."""
        ids = self.g.input("input_ids", INT64, ["batch", "length"])
        return self.g.once("T", lambda: self.g.op("Shape", ids, start=1, end=2))

    def stepping(self, most: int | None) -> ir.Value:
        """Is there a past, and are there at most so many new tokens? A bool without an axis."""
        g = self.g

        def make() -> ir.Value:
            new = g.op("Squeeze", self.length())
            past = g.op("Less", new, g.op("Squeeze", g.op("Shape", self.mask("tokens"), start=1, end=2)))
            return past if most is None else g.op("And", past, g.op("LessOrEqual", new, g.const(most)))

        return g.once(("stepping", most), make)

    def columns(self, stream: Stream, count: Counting) -> ir.Value:
        """B S: where every column stands, past ones too; -1 before a row's first token."""
        g = self.g

        def seen() -> ir.Value:
            return g.op("CumSum", self.mask(stream), g.const(1))

        def make() -> ir.Value:
            tokens = g.once(("seen", stream), seen)
            if count == "every":
                begun = g.op("Cast", g.op("Greater", tokens, g.const(0)), to=INT64.value)
                tokens = g.op("CumSum", begun, g.const(1))
            return g.op("Sub", tokens, g.const(1))

        return g.once(("columns", stream, count), make)

    def positions(self, stream: Stream, count: Counting) -> ir.Value:
        """B T: where the new tokens stand. -1 is a legal index, of a row that nobody sees."""
        columns = self.columns(stream, count)
        if not self.cached or stream == "source":
            return columns
        return self.g.once(("new", count), lambda: self.g.last(columns, self.length(), 1))

    def last_token(self, x: ir.Value) -> ir.Value:
        """B T D -> B 1 D: each row's last token of this call, whichever side its padding is on."""
        g = self.g
        there = g.last(self.mask("tokens"), self.length(), 1)  # B T
        at = g.op("Range", g.const(0), g.op("Squeeze", self.length()), g.const(1))
        last = g.op("ReduceMax", g.op("Mul", there, at), g.const([1]))  # B 1
        return g.op("GatherND", x, g.op("Unsqueeze", last, g.const([2])), batch_dims=1)

    def keys(self, stream: Stream) -> ir.Value:
        """B S: where every column stands as a key; -1 for padding."""
        g = self.g

        def make() -> ir.Value:
            padding = g.op("Equal", self.mask(stream), g.const(0))
            return g.op("Where", padding, g.const(-1), self.columns(stream, "every"))

        return g.once(("keys", stream), make)

    def shares(self, stream: Stream, pool: Pool) -> ir.Value:
        """B T: what each token weighs in a pooled vector, 1 at one token or 1 / n at each."""
        g, there = self.g, self.mask(stream)
        n = g.op("ReduceSum", there, g.const([1]))  # B 1
        if pool == "mean":
            some = g.op("Cast", g.op("Max", n, g.const(1)), to=g.dtype.value)
            return g.op("Div", g.op("Cast", there, to=g.dtype.value), some)
        at = g.const(0) if pool == "first" else g.op("Sub", n, g.const(1))
        here = g.op("Cast", g.op("Equal", self.positions(stream, "unpadded"), at), to=INT64.value)
        return g.op("Cast", g.op("Mul", there, here), to=g.dtype.value)


def allowed(g: Builder, places: Places, mask: Mask, queries: Stream, held: ir.Value | None) -> ir.Value:
    """B 1 T S: does query i see key j? `held`: how many past columns are at hand, where that may be fewer than all."""
    keys = places.keys(mask.keys)
    if held is not None:
        keys = g.last(keys, g.op("Add", held, places.length()), 1)
    i = g.op("Unsqueeze", places.positions(queries, "every"), g.const([1, 3]))  # B 1 T 1
    j = g.op("Unsqueeze", keys, g.const([1, 2]))  # B 1 1 S
    see = g.op("GreaterOrEqual", j, g.const(0))
    for more in _conditions(g, mask, i, j):
        see = g.op("And", see, more)
    return see


def _conditions(g: Builder, mask: Mask, i: ir.Value, j: ir.Value) -> list[ir.Value]:
    """What a mask asks of a query's place i and a key's j."""
    match mask.kind:
        case "causal":
            seen = [g.op("LessOrEqual", j, i)]
        case "prefix":
            prefix = g.op("Unsqueeze", g.input("prefix_length", INT64, ["batch"]), g.const([1, 2, 3]))
            seen = [g.op("Or", g.op("LessOrEqual", j, i), g.op("Less", j, prefix))]
        case "full":  # always so: ONNX Runtime wants a mask with its query axis spelt out
            seen = [g.op("GreaterOrEqual", i, g.const(-1))]
    if mask.window:
        back = g.op("Sub", i, j)
        far = g.op("Abs", back) if mask.kind == "full" else back
        seen.append(g.op("Less", far, g.const(mask.window + (mask.kind == "full"))))
    if mask.chunk:
        chunk = g.const(mask.chunk)
        seen.append(g.op("Equal", g.op("Div", i, chunk), g.op("Div", j, chunk)))
    return seen
