"""The words in ONNX, opset 23: a tensor is a value of the graph.

Heads stay packed, B T H·C, until a word needs them apart: `Attention` and `RotaryEmbedding` read that form, so most graphs
have no transposition at all. What passes need to know about a value, and could only guess from its nodes, is left in the
value's `metadata_props`: `archspec.mask` and `archspec.rope`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import onnx_ir as ir

from archspec.ops.bind import Bound, LeafRef, SlotRef
from archspec.ops.leaves import Linear, Stream, Table, Vector
from archspec.ops.model import Model
from archspec.ops.words import Activation, Counting, Mask, Pool, Rope, Scores, Sinusoid

from .graph import INT64, Array, Builder
from .places import Places, allowed, angles

Part = Literal["cached", "logits", "encoder"]
Weights = Callable[[str], Array]


@dataclass(frozen=True)
class Heads:
    """B T H·C, to be read as B H T C."""

    packed: ir.Value
    heads: int


X = ir.Value | Heads


class OnnxRun:
    """One walk over a model's bodies, which leaves a graph: `Words[X]`.

    `weights` gives a stored tensor by its path, as it is stored: (out, in) for a linear. `part` says what the graph is for:
    `cached` takes the past and gives the present, `logits` sees whole sequences, `encoder` gives what `once` keeps.
    """

    def __init__(self, builder: Builder, model: Model, part: Part, weights: Weights, last_only: bool = False) -> None:
        self.g, self.part, self.weights, self.last_only = builder, part, weights, last_only
        self.ties = model.ties
        self.tables = {t.path for t in model.tensors() if isinstance(t.leaf, Table)}
        self.places = Places(builder, cached=part == "cached")
        #: Slot -> its value after this call, in order.
        self.present: dict[SlotRef, ir.Value] = {}
        self.kept: dict[SlotRef, ir.Value] = {}
        #: Values whose keys stand on another stream than the queries that look at them.
        self.crossed: set[X] = set()

    # ---- weights

    def linear(self, x: X, w: LeafRef) -> ir.Value:
        leaf = w.leaf
        assert isinstance(leaf, Linear)
        path, x = f"{w.path}.weight", plain(x)
        stored = self.ties.get(path, path)
        if stored in self.tables:
            y = self.tied_linear(x, leaf, stored)
        else:
            y = self.g.op("MatMul", x, self.g.weight(stored, (leaf.inp, leaf.out), lambda: self.weights(stored).T))
        return self.g.op("Add", y, self.vector(f"{w.path}.bias", (leaf.out,))) if leaf.bias else y

    def tied_linear(self, x: ir.Value, leaf: Linear, table: str) -> ir.Value:
        """x times the token table, read as it lies: a Transpose node would be folded into a second copy of it."""
        g = self.g
        rows = g.op("Reshape", x, g.const([-1, leaf.inp]))
        y = g.op("Gemm", rows, self.table(table, leaf.out, leaf.inp), transB=1)
        return g.op("Reshape", y, g.op("Concat", g.op("Shape", x, start=0, end=-1), g.const([leaf.out]), axis=0))

    def table(self, path: str, rows: int, width: int) -> ir.Value:
        return self.g.weight(path, (rows, width), lambda: self.weights(path))

    def vector(self, path: str, shape: tuple[int, ...], shift: float = 0.0) -> ir.Value:
        """A vector by its path; what is stored is shift + w."""
        stored = self.ties.get(path, path)
        return self.g.weight(stored, shape, lambda: self.weights(stored).reshape(shape) + shift)

    def embedding(self, ids: X, w: LeafRef, offset: int = 0) -> ir.Value:
        leaf, path = w.leaf, f"{w.path}.weight"
        assert isinstance(leaf, Table)
        rows = self.g.op("Add", plain(ids), self.g.const(offset)) if offset else plain(ids)
        return self.g.op("Gather", self.table(self.ties.get(path, path), leaf.rows, leaf.width), rows, axis=0)

    # ---- norms

    def rms_norm(self, x: X, w: LeafRef | None, eps: float, shift: float) -> X:
        def norm(x: ir.Value, weight: ir.Value, bias: ir.Value | None) -> ir.Value:
            return self.g.op("RMSNormalization", x, weight, axis=-1, epsilon=eps)

        return self.normed(norm, x, w, None, shift)

    def layer_norm(self, x: X, w: LeafRef | None, b: LeafRef | None, eps: float, shift: float, outside: bool) -> X:
        def norm(x: ir.Value, weight: ir.Value, bias: ir.Value | None) -> ir.Value:
            inputs = (x, weight, bias) if bias else (x, weight)
            return self.g.op("LayerNormalization", *inputs, axis=-1, epsilon=eps)

        def outside_norm(x: ir.Value, weight: ir.Value, bias: ir.Value | None) -> ir.Value:
            g, last = self.g, self.g.const([-1])
            centred = g.op("Sub", x, g.op("ReduceMean", x, last))
            std = g.op("Sqrt", g.op("ReduceMean", g.op("Mul", centred, centred), last))
            y = g.op("Mul", g.op("Div", centred, g.op("Add", std, g.number(eps))), weight)
            return g.op("Add", y, bias) if bias else y

        return self.normed(outside_norm if outside else norm, x, w, b, shift)

    def normed(self, norm: Norm, x: X, w: LeafRef | None, b: LeafRef | None, shift: float) -> X:
        """`norm(x, weight, bias)` over the last axis; each head by itself, and a weight for each head after it."""
        rows = self.rows(x)
        weight, bias = (self.vector(r.path, squeezed(r), s) if r else None for r, s in ((w, shift), (b, 0.0)))
        if any(r and len(squeezed(r)) > 1 for r in (w, b)):
            y = norm(rows, self.ones(rows), None)
            y = self.g.op("Mul", y, weight) if weight else y
            y = self.g.op("Add", y, bias) if bias else y
        else:
            y = norm(rows, weight or self.ones(rows), bias)
        return self.like(x, y)

    def ones(self, x: ir.Value) -> ir.Value:
        """A weight of 1 for each channel: a single 1 is legal, and ONNX Runtime's fused norms do not take it."""
        return self.g.op("Expand", self.g.number([1.0]), self.g.op("Shape", x, start=-1))

    def l2_norm(self, x: X, eps: float) -> X:
        rows = self.rows(x)
        length = self.g.op("Max", self.g.op("ReduceL2", rows, self.g.const([-1])), self.g.number(eps))
        return self.like(x, self.g.op("Div", rows, length))

    # ---- shape

    def split_heads(self, x: X, heads: int, width: int) -> Heads:
        return Heads(plain(x), heads)

    def merge_heads(self, x: X) -> ir.Value:
        if isinstance(x, Heads):
            return x.packed
        return self.g.op("Reshape", self.g.op("Transpose", x, perm=[0, 2, 1, 3]), self.g.const([0, 0, -1]))

    def rows(self, x: X) -> ir.Value:
        """... C with the channels of one head last: B T H C for packed heads."""
        if not isinstance(x, Heads):
            return x
        split = self.g.const([0, 0, x.heads, -1])
        return self.g.once(("rows", x), lambda: self.g.op("Reshape", x.packed, split))

    def like(self, x: X, rows: ir.Value) -> X:
        """`rows`, which came from `self.rows(x)`, in the form of x."""
        return Heads(self.g.op("Reshape", rows, self.g.const([0, 0, -1])), x.heads) if isinstance(x, Heads) else rows

    def apart(self, x: X) -> ir.Value:
        """B H T C"""
        if not isinstance(x, Heads):
            return x
        return self.g.once(("apart", x), lambda: self.g.op("Transpose", self.rows(x), perm=[0, 2, 1, 3]))

    # ---- elementwise

    def add(self, a: X, b: X) -> ir.Value:
        return self.g.op("Add", plain(a), plain(b))

    def mul(self, a: X, b: X) -> ir.Value:
        return self.g.op("Mul", plain(a), plain(b))

    def scale(self, x: X, by: float) -> ir.Value:
        return self.g.op("Mul", plain(x), self.g.number(by))

    def shift(self, x: X, by: float) -> ir.Value:
        return self.g.op("Add", plain(x), self.g.number(by))

    def clamp(self, x: X, low: float | None, high: float | None) -> ir.Value:
        bounds = (self.g.number(b) if b is not None else None for b in (low, high))
        return self.g.op("Clip", plain(x), *bounds)

    def softcap(self, x: X, cap: float) -> ir.Value:
        bound = self.g.number(cap)
        return self.g.op("Mul", self.g.op("Tanh", self.g.op("Div", plain(x), bound)), bound)

    def activate(self, x: X, kind: Activation) -> ir.Value:
        g, x = self.g, plain(x)
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
                return g.op({"relu": "Relu", "mish": "Mish", "tanh": "Tanh", "sigmoid": "Sigmoid"}[kind], x)

    def dropout(self, x: X, p: float) -> X:
        return x

    # ---- positions

    def positions(self, stream: Stream, count: Counting = "unpadded") -> ir.Value:
        return self.places.positions(stream, count)

    def token_types(self, stream: Stream) -> ir.Value:
        if stream == "source":
            return self.g.input("source_token_type_ids", INT64, ["batch", "source"])
        return self.g.input("token_type_ids", INT64, ["batch", "length"])

    def sinusoid(self, x: X, positions: X, table: Sinusoid, offset: int = 0) -> ir.Value:
        g, at = self.g, plain(positions)
        at = g.op("Add", at, g.const(offset)) if offset else at
        cos, sin = angles(self.g, at, table.frequencies())
        if table.halves:
            both = g.op("Concat", sin, cos, axis=-1)
        else:
            pairs = [g.op("Unsqueeze", each, g.const([3])) for each in (sin, cos)]
            both = g.op("Reshape", g.op("Concat", *pairs, axis=-1), g.const([0, 0, -1]))
        if table.width % 2:
            both = g.op("Slice", both, g.const([0]), g.const([table.width]), g.const([2]))
        return g.op("Add", plain(x), both)

    def rope(self, x: X, positions: X, rope: Rope) -> X:
        def make() -> tuple[ir.Value, ir.Value]:
            both = angles(self.g, plain(positions), rope.frequencies())
            for value, name in zip(both, ("cos", "sin"), strict=True):
                value.metadata_props["archspec.rope"] = f"{name} {rope}"
            return both

        tables = self.g.once(("rope", positions, rope), make)
        form = {"interleaved": int(rope.interleaved), "rotary_embedding_dim": rope.dim}
        if isinstance(x, Heads):
            packed = self.g.op("RotaryEmbedding", x.packed, *tables, num_heads=x.heads, **form)
            return Heads(packed, x.heads)
        return self.g.op("RotaryEmbedding", x, *tables, **form)

    # ---- attention

    def slot(self, name: str, ref: SlotRef, rows: str) -> ir.Value:
        """What a slot holds, as an input: B heads rows width."""
        slot = ref.slot
        return self.g.input(slot_name(name, ref), self.g.dtype, ["batch", slot.heads, rows, slot.width])

    def past(self, ref: SlotRef) -> ir.Value:
        return self.slot("past", ref, trimmed("past", ref))

    def mask(self, mask: Mask, queries: Stream, cache: SlotRef | None) -> ir.Value:
        """B 1 T S; a cache that may be trimmed is as long as the past that is given."""

        def make() -> ir.Value:
            held = None
            if cache and cache.slot.rows is not None:
                held = self.g.op("Shape", self.past(cache), start=2, end=3)
            see = allowed(self.g, self.places, mask, queries, held)
            limit = f"window {mask.window}" if mask.window else f"chunk {mask.chunk}" if mask.chunk else "all"
            see.metadata_props["archspec.mask"] = f"{mask.keys} {mask.kind} {limit}"
            return see

        return self.g.once(("mask", mask, queries, cache is not None), make)

    def attend(self, q: X, k: X, v: X, scores: Scores, cache: tuple[Any, Any] | None = None) -> X:
        mask = scores.mask
        slots: tuple[SlotRef, ...] = cache if cache and self.part == "cached" else ()
        see = self.mask(mask, "tokens" if k in self.crossed else mask.keys, slots[0] if slots else None)
        options: dict[str, Any] = {"scale": scores.scale}
        if scores.softcap:
            options["softcap"] = scores.softcap
        if isinstance(q, Heads) and isinstance(k, Heads) and isinstance(v, Heads):
            ins = [q.packed, k.packed, v.packed]
            options |= {"q_num_heads": q.heads, "kv_num_heads": k.heads}
        else:
            ins = [self.apart(x) for x in (q, k, v)]
        past = [self.past(slot) for slot in slots]
        out, *present = self.g.nodes("Attention", 3 if past else 1, *ins, see, *past, **options)
        self.present |= dict(zip(slots, present, strict=True))
        return Heads(out, q.heads) if isinstance(q, Heads) and "q_num_heads" in options else out

    def once(self, slots: Sequence[SlotRef], make: Callable[[], Sequence[X]]) -> Sequence[X]:
        if self.part == "cached":
            made: Sequence[X] = [self.slot("cross", slot, "source") for slot in slots]
        else:
            made = make()
        if self.part == "encoder":
            self.kept |= {slot: self.apart(x) for slot, x in zip(slots, made, strict=True)}
        self.crossed |= set(made)
        return made

    # ---- the ends of a model

    def wanted(self, x: X) -> ir.Value:
        return self.g.last(plain(x), self.g.const([1]), 1) if self.last_only else plain(x)

    def pool(self, x: X, kind: Pool, stream: Stream) -> ir.Value:
        """Every kind is a weighted sum over tokens: its weights are 1 at one token, or 1 / n at each."""
        g, there = self.g, self.places.mask(stream)  # B T
        n = g.op("ReduceSum", there, g.const([1]))  # B 1
        if kind == "mean":
            some = g.op("Cast", g.op("Max", n, g.const(1)), to=g.dtype.value)
            weights = g.op("Div", g.op("Cast", there, to=g.dtype.value), some)
        else:
            at = g.const(0) if kind == "first" else g.op("Sub", n, g.const(1))
            here = g.op("Cast", g.op("Equal", self.positions(stream), at), to=INT64.value)
            weights = g.op("Cast", g.op("Mul", there, here), to=g.dtype.value)
        rows = g.op("MatMul", g.op("Unsqueeze", weights, g.const([1])), plain(x))  # B 1 D
        return g.op("Squeeze", rows, g.const([1]))

    # ---- structure

    def fold(self, layers: Sequence[Bound], x: X, *shared: X) -> X:
        for layer in layers:
            with self.g.at(layer.path):
                x = layer(self, x, *shared)
        return x


Norm = Callable[[ir.Value, ir.Value, ir.Value | None], ir.Value]


def plain(x: X) -> ir.Value:
    """A tensor that was never split into heads."""
    assert isinstance(x, ir.Value), "heads where a whole tensor is meant"
    return x


def squeezed(ref: LeafRef) -> tuple[int, ...]:
    """The shape of a vector beside B T H C: (C) or (H C)."""
    assert isinstance(ref.leaf, Vector)
    return tuple(n for i, n in enumerate(ref.leaf.shape) if len(ref.leaf.shape) == 1 or i != 1)


def slot_name(name: str, ref: SlotRef) -> str:
    """past.3.key for the slot decoder.layers.3.attention.key."""
    layer, slot = re.fullmatch(r"\w+\.layers\.(\d+)\.\w+\.(\w+)", ref.path).groups()  # type: ignore[union-attr]
    return f"{name}.{layer}.{slot}"


def trimmed(dim: str, ref: SlotRef) -> str:
    """The name of a cache's length: a cache that may be trimmed has its own."""
    return dim if ref.slot.rows is None else f"{dim}_{ref.slot.rows}"
