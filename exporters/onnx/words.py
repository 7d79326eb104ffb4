"""The words in ONNX, opset 23: a tensor is a value of the graph.

Passes read the run's records (`attended`, `products`, …). For whoever reads the file, a value's `metadata_props` say what its nodes
do not show: `archspec.mask`, `archspec.rope`, `archspec.attention`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import onnx_ir as ir

from archspec.compiler.precision import Storage
from archspec.ops.bind import Bound, LeafRef, SlotRef
from archspec.ops.leaves import Linear, Stream, Table
from archspec.ops.model import Model
from archspec.ops.words import (
    Alibi,
    Buckets,
    Counting,
    Distances,
    Mask,
    Pool,
    Rope,
    Routing,
    Scores,
    Sinusoid,
    Temperature,
    Words,
)  # fmt: skip

from . import attention, biases, experts, rotations
from .graph import INT64, Builder
from .heads import Heads, X, apart, gathered, plain
from .places import Places, allowed
from .pointwise import Pointwise
from .weights import Weights

Part = Literal["cached", "logits", "encoder"]


@dataclass(frozen=True)
class Attended:
    """An attention as it stands in a graph, for passes that write it as another node."""

    q: X
    k: X
    v: X
    scores: Scores
    #: The slots of its keys and values, where they are kept between calls.
    cache: tuple[SlotRef, SlotRef] | None
    sinks: LeafRef | None
    #: What joins the scaled products.
    added: X | None
    y: X


class OnnxRun(Pointwise, Words[X]):
    """One walk over a model's bodies, which leaves a graph.

    `weights` gives a stored tensor by its path, as it is stored: (out, in) for a linear. `part` says what the graph is for:
    `cached` takes the past and gives the present, `logits` sees whole sequences, `encoder` gives what `once` keeps.
    `last_only`: the head reads each row's last token alone. `context`: the longest run, for tables by position; None: there is no
    telling.
    """

    def __init__(
        self,
        builder: Builder,
        model: Model,
        part: Part,
        weights: Weights,
        storage: Storage,
        last_only: bool,
        context: int | None,
    ) -> None:
        super().__init__(builder, model, weights, storage)
        self.part, self.last_only, self.context = part, last_only, context
        self.places = Places(builder, cached=part == "cached")
        #: Slot -> its value after this call, in order.
        self.present: dict[SlotRef, ir.Value] = {}
        self.kept: dict[SlotRef, ir.Value] = {}
        #: Rows of a cache that may be trimmed -> a slot of so many, which says how many there are in a call.
        self.trimming: dict[int, SlotRef] = {}
        #: Experts chosen -> by what rule, among how many, for the operation of this path (with a dot at its end).
        self.routings: dict[ir.Value, tuple[Routing, int, str]] = {}
        #: Every attention, in order, by the place it stands in.
        self.attended: list[Attended] = []
        #: What the head would read, and the last token of each row of it, which it reads.
        self.last: tuple[ir.Value, ir.Value] | None = None
        #: Heads that were rotated -> what was rotated, and how.
        self.rotated: dict[X, tuple[Heads, Rope]] = {}
        #: Values whose keys stand on another stream than the queries that look at them.
        self.crossed: set[X] = set()

    # ---- positions

    def positions(self, stream: Stream, count: Counting = "unpadded") -> ir.Value:
        return self.places.positions(stream, count)

    def token_types(self, stream: Stream) -> ir.Value:
        if stream == "source":
            return self.g.input("source_token_type_ids", INT64, ["batch", "source"])
        return self.g.input("token_type_ids", INT64, ["batch", "length"])

    def sinusoid(self, x: X, positions: X, table: Sinusoid, offset: int = 0) -> ir.Value:
        at = self.g.op("Add", plain(positions), self.g.const(offset)) if offset else plain(positions)
        return self.g.op("Add", plain(x), rotations.waves(self.g, at, table))

    def rope(self, x: X, positions: X, rope: Rope) -> X:
        tables = rotations.turns(self.g, plain(positions), rope)
        form = {"interleaved": int(rope.interleaved), "rotary_embedding_dim": rope.dim}
        if isinstance(x, Heads):
            rotated = Heads(self.g.op("RotaryEmbedding", x.packed, *tables, num_heads=x.heads, **form), x.heads)
            self.rotated[rotated] = x, rope
            return rotated
        return self.g.op("RotaryEmbedding", x, *tables, **form)

    def temper(self, x: X, positions: X, temperature: Temperature) -> X:
        by = rotations.temperature(self.g, plain(positions), temperature)  # B T 1
        if isinstance(x, Heads):
            return Heads(self.g.op("Mul", x.packed, by), x.heads)
        return self.g.op("Mul", x, self.g.op("Unsqueeze", by, self.g.const([1])))

    # ---- attention

    def slot(self, name: str, ref: SlotRef, rows: str) -> ir.Value:
        """What a slot holds, as an input: B heads rows width."""
        slot = ref.slot
        return self.g.input(slot_name(name, ref), self.g.dtype, ["batch", slot.heads, rows, slot.width])

    def past(self, ref: SlotRef) -> ir.Value:
        if ref.slot.rows is not None:
            self.trimming.setdefault(ref.slot.rows, ref)
        return self.slot("past", ref, trimmed("past", ref))

    def mask(self, mask: Mask, queries: Stream) -> ir.Value:
        """B 1 T S; a cache that may be trimmed is as long as the past that is given."""

        def make() -> ir.Value:
            held = None
            if self.part == "cached" and mask.rows is not None:
                held = self.g.op("Shape", self.past(self.trimming[mask.rows]), start=2, end=3)
            see = allowed(self.g, self.places, mask, queries, held)
            limit = f"window {mask.window}" if mask.window else f"chunk {mask.chunk}" if mask.chunk else "all"
            see.metadata_props["archspec.mask"] = f"{mask.keys} {mask.kind} {limit}"
            return see

        return self.g.once(("mask", mask, queries), make)

    def bias(self, see: ir.Value, scores: Scores, table: LeafRef | None) -> ir.Value | None:
        """H T S, where there is one."""
        match scores.bias:
            case Alibi() as bias:
                return biases.alibi(self.g, see, bias, scores.scale)
            case Buckets(count=count) as bias:
                assert table is not None
                assert isinstance(table.leaf, Table)
                stored, shape = self.stored_path(f"{table.path}.weight"), (table.leaf.width, count)
                buckets = self.g.weight(stored, shape, self.rows(stored), transposed=True)
                return biases.bucketed(self.g, see, bias, buckets)
        return None

    def attend(
        self,
        q: X,
        k: X,
        v: X,
        scores: Scores,
        cache: tuple[SlotRef, SlotRef] | None = None,
        *,
        added: X | None = None,
        table: LeafRef | None = None,
        sinks: LeafRef | None = None,
    ) -> X:
        slots = cache if cache and self.part == "cached" else None
        y = self.scored(q, k, v, scores, slots or (), None if added is None else plain(added), table, sinks)
        self.attended.append(Attended(q, k, v, scores, slots, sinks, added, y))
        return y

    def scored(
        self,
        q: X,
        k: X,
        v: X,
        scores: Scores,
        slots: Sequence[SlotRef],
        joined: ir.Value | None,
        table: LeafRef | None,
        sinks: LeafRef | None,
    ) -> X:
        g = self.g
        past = [self.past(slot) for slot in slots]
        see = self.mask(scores.mask, "tokens" if k in self.crossed else scores.mask.keys)
        bias = self.bias(see, scores, table)
        if why := self.unfused(q, k, slots, sinks, capped=joined is not None and scores.softcap is not None):
            assert isinstance(q, Heads)
            assert isinstance(k, Heads)
            keys, values = (self.extended(x, slot) for x, slot in zip((k, v), slots or (None, None), strict=True))
            added = biases.biased(g, see, g.number(0.0) if bias is None else bias)
            logits = None if sinks is None else self.vector(sinks.path, (q.heads,))
            return attention.explicit(g, q, keys, values, k.heads, joined, added, scores, why, logits)
        bias = joined if bias is None else bias
        seen = see if bias is None else biases.biased(g, see, bias)
        out, present = attention.fused(g, q, k, v, seen, scores, past)
        self.present |= dict(zip(slots, present, strict=True))
        return out

    def unfused(self, q: X, k: X, slots: Sequence[SlotRef], sinks: LeafRef | None, capped: bool) -> str | None:
        """Why an attention is no node of its own. capped: is more than the product of q and k under a cap?"""
        if sinks is not None:
            return "sinks"
        if capped:
            return "distances under a softcap"
        kept = self.part == "cached" and not slots and k not in self.crossed
        one = isinstance(q, Heads) and isinstance(k, Heads) and k.heads == 1 < q.heads
        return "one key head for all" if kept and one else None  # `Attention` would read it once for each of them

    def relate(self, q: X, k: X, row_q: X | None, row_k: X | None, distances: Distances, mask: Mask) -> ir.Value:
        assert isinstance(q, Heads)
        rows = biases.distance_rows(self.g, self.mask(mask, mask.keys), distances)  # 1 1 T S
        found = []
        for a, b, axis in ((q, row_k, 3), (row_q, k, 2)):  # B H T R, B H R S
            if a is not None and b is not None:
                found.append(attention.picked(self.g, attention.related(self.g, a, b), q.heads, rows, axis))
        return found[0] if len(found) == 1 else self.g.op("Add", *found)

    def extended(self, x: X, slot: SlotRef | None) -> ir.Value:
        """B K S C: what the slot holds before x, which it holds from now on."""
        if slot is None:
            return apart(self.g, x)
        self.present[slot] = self.g.op("Concat", self.past(slot), apart(self.g, x), axis=2)
        return self.present[slot]

    def remember(self, x: X, slot: SlotRef) -> X:
        if self.part != "cached":
            return x
        return gathered(self.g, self.extended(x, slot), slot.slot.heads)

    def once(self, slots: Sequence[SlotRef], make: Callable[[], Sequence[X]]) -> Sequence[X]:
        crossed = self.part == "cached"
        made: Sequence[X] = [self.slot("cross", slot, "source") for slot in slots] if crossed else make()
        if self.part == "encoder":
            self.kept |= {slot: apart(self.g, x) for slot, x in zip(slots, made, strict=True)}
        self.crossed |= set(made)
        return made

    def stepping(self, most: int | None, step: Callable[[], X], whole: Callable[[], X]) -> X:
        if self.part != "cached":
            return whole()
        known = len(self.attended)
        few = plain(step())
        del self.attended[known:]  # an attention is one, however it is computed
        return self.g.either(self.places.stepping(most), few, plain(whole()))

    # ---- experts

    def route(self, x: X, w: LeafRef, bias: LeafRef | None, routing: Routing) -> tuple[ir.Value, ir.Value]:
        g, leaf, x = self.g, w.leaf, self.g.full(plain(x))
        assert isinstance(leaf, Linear)
        with g.precise():
            logits = self.linear(x, w)
            selection = self.vector(bias.path, (leaf.out,)) if bias else None
            weights, chosen = experts.routed(g, logits, selection, routing, leaf.out)
        weights = g.halved(weights)
        self.routings[chosen] = routing, leaf.out, w.path.removesuffix("router")
        return weights, chosen

    def experts(self, x: X, weights: X, chosen: X, on_input: bool, body: Callable[[X], X]) -> ir.Value:
        routing, count, _ = self.routings[plain(chosen)]

        def one(expert: int, rows: ir.Value) -> ir.Value:
            self.expert = expert
            return plain(body(rows))

        return experts.mixed(self.g, plain(x), plain(weights), plain(chosen), routing, count, on_input, one)

    # ---- the ends of a model

    def wanted(self, x: X) -> ir.Value:
        if not self.last_only:
            return plain(x)
        self.last = plain(x), self.places.last_token(plain(x))
        return self.last[1]

    def pool(self, x: X, kind: Pool, stream: Stream) -> ir.Value:
        """Every kind is a weighted sum over tokens."""
        g, x = self.g, self.g.full(plain(x))
        with g.precise():
            shares = g.op("Unsqueeze", self.places.shares(stream, kind), g.const([1]))  # B 1 T
        return g.halved(g.op("Squeeze", g.op("MatMul", shares, x), g.const([1])))

    # ---- structure

    def fold(self, layers: Sequence[Bound], x: X, *shared: X) -> X:
        for layer in layers:
            with self.g.at(layer.path):
                x = layer(self, x, *shared)
        return x


def slot_name(name: str, ref: SlotRef) -> str:
    """past.3.key for the slot decoder.layers.3.attention.key, past.3.latent for its latent."""
    match = re.fullmatch(r"\w+\.layers\.(\d+)\.\w+\.(\w+)", ref.path)
    assert match is not None, ref.path
    return f"{name}.{match[1]}.{match[2]}"


def trimmed(dim: str, ref: SlotRef) -> str:
    """The name of a cache's length: a cache that may be trimmed has its own."""
    return dim if ref.slot.rows is None else f"{dim}_{ref.slot.rows}"
