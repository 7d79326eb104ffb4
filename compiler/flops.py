"""Counting FLOPs: an interpreter of the words in which a tensor is its shape.

Convention: one multiply-add is 2 FLOPs. *dense* takes every query-key pair, as torch's counter does; *causal* only the pairs
that a mask lets through, windows included. Look-ups are 0. Norms, softmax, activations, rotations and elementwise arithmetic
are not FLOPs here; their elements are tallied beside, so that nothing is dropped in silence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from archspec.ops.bind import Bound, LeafRef, SlotRef
from archspec.ops.leaves import Linear, Stream, Table
from archspec.ops.model import Model
from archspec.ops.record import Record
from archspec.ops.words import Activation, Counting, Distances, Mask, Pool, Rope, Routing, Scores, Sinusoid, Temperature

from .pairs import pairs
from .poly import Poly

Dim = int | Poly
Shape = tuple[Dim, ...]

B, T, P, M, FIRST = map(Poly.var, ("B", "T", "P", "M", "first"))


class Lengths(Record):
    """What the letters are in one call: batch B, new tokens T after P past ones, M source tokens. All counts of tokens."""

    batch: int
    length: int
    past: int = 0
    source: int = 0


class Flops:
    """Polynomials by component. Each is a number `at(value(lengths))`.

    Letters: B, T, P, M as in `Lengths`; `first` is 1 on the first call of a request (P = 0) and 0 after it, for what is
    computed once: the encoder, and the keys and values of cross attention; `pairs…` are the pairs a mask lets through;
    `step…` is 1 in a call of a few tokens after a past, `whole…` in any other, for what the two compute in different ways.
    """

    def __init__(self) -> None:
        self.dense: dict[str, Poly] = defaultdict(Poly)
        self.causal: dict[str, Poly] = defaultdict(Poly)
        #: Elements that pass through what is not counted, by kind.
        self.uncounted: dict[str, Poly] = defaultdict(Poly)
        self.masks: dict[str, Mask] = {}
        #: New tokens that a step may have (None: any number), and whether the name is that of a step.
        self.calls: dict[str, tuple[int | None, bool]] = {}

    def value(self, lengths: Lengths) -> Callable[[str], int]:
        """What each name of the polynomials is."""
        letters = {"B": lengths.batch, "T": lengths.length, "P": lengths.past, "M": lengths.source}
        letters["first"] = int(lengths.past == 0)

        for name, (most, step) in self.calls.items():
            few = lengths.past > 0 and (most is None or lengths.length <= most)
            letters[name] = int(few == step)

        def value(name: str) -> int:
            if name not in letters:
                mask = self.masks[name]
                new = lengths.source if mask.keys == "source" else lengths.length
                past = 0 if mask.kind == "full" else lengths.past
                letters[name] = pairs(mask, new, past)
            return letters[name]

        return value


def linear_of(w: LeafRef) -> Linear:
    """The linear that a word was given."""
    assert isinstance(w.leaf, Linear), w
    return w.leaf


class Counter:
    """The words, on shapes. One instance counts one forward call."""

    def __init__(self) -> None:
        self.flops = Flops()
        self.times: Poly | int = 1
        self.component = ""

    @contextmanager
    def multiplied(self, by: Poly | int) -> Iterator[None]:
        """Everything inside happens `by` times."""
        saved, self.times = self.times, self.times * by
        yield
        self.times = saved

    @contextmanager
    def booked(self, component: str) -> Iterator[None]:
        """Everything inside is work of this component."""
        saved, self.component = self.component, component
        yield
        self.component = saved

    def product(self, *dims: Dim) -> None:
        """A matrix product of so many multiply-adds, all of them used."""
        n = Poly.product(dims)
        self.add_flops(n, n)

    def add_flops(self, dense: Poly, causal: Poly) -> None:
        """Multiply-adds, 2 FLOPs each, and how many of them the mask lets through."""
        f, c = self.flops, self.component
        f.dense[c] = f.dense[c] + dense * 2 * self.times
        f.causal[c] = f.causal[c] + causal * 2 * self.times

    def passed(self, kind: str, x: Shape) -> Shape:
        """x went through something that is not counted."""
        u = self.flops.uncounted
        u[kind] = u[kind] + Poly.product(x) * self.times
        return x

    def used(self, *leaves: LeafRef | None) -> None:
        """A word was given these, and reads all of each. Nothing here: it is for a reading that adds them up."""

    # ---- weights

    def linear(self, x: Shape, w: LeafRef) -> Shape:
        leaf = linear_of(w)
        self.used(w)
        assert x[-1] == leaf.inp, (x, w)
        with self.booked(self.component or w.component):
            self.product(*x, leaf.out)
        return (*x[:-1], leaf.out)

    def by_head(self, x: Shape, w: LeafRef, heads: int) -> Shape:
        return self.each_head(x, w, heads, linear_of(w).inp, linear_of(w).out // heads)

    def back_by_head(self, x: Shape, w: LeafRef, heads: int) -> Shape:
        return self.each_head(x, w, heads, linear_of(w).out // heads, linear_of(w).inp)

    def each_head(self, x: Shape, w: LeafRef, heads: int, inp: int, out: int) -> Shape:
        b, h, t, c = x
        self.used(w)
        assert h in (1, heads), (x, w)
        assert c == inp, (x, w)
        with self.booked(self.component or w.component):
            self.product(b, heads, t, inp, out)
        return b, heads, t, out

    def embedding(self, ids: Shape, w: LeafRef, offset: int = 0) -> Shape:
        assert isinstance(w.leaf, Table), w
        return (*ids, w.leaf.width)

    def rms_norm(self, x: Shape, w: LeafRef | None, eps: float, shift: float) -> Shape:
        self.used(w)
        return self.passed("norm", x)

    def layer_norm(
        self, x: Shape, w: LeafRef | None, b: LeafRef | None, eps: float, shift: float, outside: bool
    ) -> Shape:
        self.used(w, b)
        return self.passed("norm", x)

    def l2_norm(self, x: Shape, eps: float) -> Shape:
        return self.passed("norm", x)

    def table(self, w: LeafRef) -> Shape:
        self.used(w)
        assert isinstance(w.leaf, Table), w
        return 1, w.leaf.rows, w.leaf.width

    # ---- shape

    def split_heads(self, x: Shape, heads: int, width: int) -> Shape:
        b, t, d = x
        assert d == heads * width, (x, heads, width)
        return b, heads, t, width

    def merge_heads(self, x: Shape) -> Shape:
        b, h, t, c = x
        return b, t, h * c

    def split(self, x: Shape, widths: tuple[int, ...]) -> Sequence[Shape]:
        assert x[-1] == sum(widths), (x, widths)
        return [(*x[:-1], c) for c in widths]

    def concat(self, a: Shape, b: Shape) -> Shape:
        assert b[1] in (1, a[1]), (a, b)
        return (*a[:-1], a[-1] + b[-1])

    # ---- elementwise

    def add(self, a: Shape, b: Shape) -> Shape:
        assert a[-1] == b[-1], (a, b)
        return self.passed("elementwise", a)

    def mul(self, a: Shape, b: Shape) -> Shape:
        assert b[-1] in (1, a[-1]), (a, b)
        return self.passed("elementwise", a)

    def mul_heads(self, x: Shape, g: Shape) -> Shape:
        assert x[1] == g[2], (x, g)
        return self.passed("elementwise", x)

    def add_heads(self, x: Shape, w: LeafRef) -> Shape:
        self.used(w)
        return self.passed("elementwise", x)

    def weigh(self, x: Shape, w: LeafRef, shift: float) -> Shape:
        self.used(w)
        return self.passed("elementwise", x)

    def blend(self, x: Shape, f: Shape, w: LeafRef, temperature: float, floor: float) -> Shape:
        self.used(w)
        assert x[-1] == f[-1], (x, f)
        return self.passed("elementwise", x)

    def scale(self, x: Shape, by: float) -> Shape:
        return self.passed("elementwise", x)

    shift = scale

    def clamp(self, x: Shape, low: float | None, high: float | None) -> Shape:
        return self.passed("elementwise", x)

    def softcap(self, x: Shape, cap: float) -> Shape:
        return self.passed("activation", x)

    def activate(self, x: Shape, kind: Activation) -> Shape:
        return x if kind == "identity" else self.passed("activation", x)

    def xielu(self, x: Shape, positive: LeafRef, negative: LeafRef) -> Shape:
        self.used(positive, negative)
        return self.passed("activation", x)

    def dropout(self, x: Shape, p: float) -> Shape:
        return x

    # ---- positions

    def positions(self, stream: Stream, count: Counting = "unpadded") -> Shape:
        return B, (M if stream == "source" else T)

    def token_types(self, stream: Stream) -> Shape:
        return self.positions(stream)

    def sinusoid(self, x: Shape, positions: Shape, table: Sinusoid, offset: int = 0) -> Shape:
        assert x[-1] == table.width, (x, table)
        return self.passed("elementwise", x)

    def rope(self, x: Shape, positions: Shape, rope: Rope) -> Shape:
        self.passed("rotation", (*x[:-1], rope.dim))
        return x

    def temper(self, x: Shape, positions: Shape, temperature: Temperature) -> Shape:
        return self.passed("elementwise", x)

    # ---- attention

    def attend(
        self,
        q: Shape,
        k: Shape,
        v: Shape,
        scores: Scores,
        cache: tuple[Any, Any] | None = None,
        *,
        added: Shape | None = None,
        table: LeafRef | None = None,
        sinks: LeafRef | None = None,
    ) -> Shape:
        b, h, t, c = q
        self.used(sinks)
        assert c == k[3], (q, k)
        s = P + T if cache else k[2]
        assert added in (None, (b, h, t, s)), (q, k, added)
        per_pair = Poly.product((b, h, c + v[3]))
        self.add_flops(Poly.product((per_pair, t, s)), per_pair * self.pairs(scores.mask, t, s))
        self.passed("softmax", (b, h, t, s))
        return b, h, t, v[3]

    def relate(
        self, q: Shape, k: Shape, row_q: Shape | None, row_k: Shape | None, distances: Distances, mask: Mask
    ) -> Shape:
        (b, h, t, c), s, rows = q, k[2], distances.rows
        for row, heads, positions in ((row_q, h, s), (row_k, k[1], t)):
            assert row in (None, (1, heads, rows, c)), (q, k, row)
            if row:
                self.product(b, h, positions, rows, c)
        return b, h, t, s

    def pairs(self, mask: Mask, t: Dim, s: Dim) -> Poly:
        """The pairs that the mask lets through, as a name where they are no polynomial."""
        if mask.kind == "full" and mask.window is None and mask.chunk is None:
            return Poly.product((t, s))
        limit = f"[{mask.window}]" if mask.window else f"[chunk {mask.chunk}]" if mask.chunk else ""
        name = ("pairs" if mask.kind != "full" else "near") + limit + ("ₛ" if mask.keys == "source" else "")
        self.flops.masks[name] = mask
        return Poly.var(name)

    def remember(self, x: Shape, slot: SlotRef) -> Shape:
        b, h, _, c = x
        return b, h, P + T, c

    def once(self, slots: Sequence[Any], make: Callable[[], Sequence[Shape]]) -> Sequence[Shape]:
        with self.multiplied(FIRST):
            return make()

    def stepping(self, most: int | None, step: Callable[[], Shape], whole: Callable[[], Shape]) -> Shape:
        limit = "" if most is None else f"[{most}]"
        self.flops.calls |= {f"step{limit}": (most, True), f"whole{limit}": (most, False)}
        with self.multiplied(Poly.var(f"step{limit}")):
            y = step()
        with self.multiplied(Poly.var(f"whole{limit}")):
            assert whole() == y
        return y

    # ---- experts

    def route(self, x: Shape, w: LeafRef, bias: LeafRef | None, routing: Routing) -> tuple[Shape, Shape]:
        b, t, e = self.linear(x, w)
        self.used(bias)
        self.passed("activation" if routing.score == "sigmoid" else "softmax", (b, t, e))
        return (b, t, routing.k), (b, t, routing.k)

    def experts(self, x: Shape, weights: Shape, chosen: Shape, on_input: bool, body: Callable[[Shape], Shape]) -> Shape:
        rows = (*x[:-1], chosen[-1], x[-1])  # B T k D: what a token's experts do
        y = body(rows)
        self.passed("elementwise", y)
        return (*y[:-2], y[-1])

    # ---- the ends of a model

    def wanted(self, x: Shape) -> Shape:
        return x

    def pool(self, x: Shape, kind: Pool, stream: Stream) -> Shape:
        return x[0], x[2]

    # ---- structure

    def fold(self, layers: Sequence[Bound], x: Shape, *shared: Shape) -> Shape:
        groups: dict[int, list[Bound]] = {}
        for layer in layers:
            groups.setdefault(id(layer.op), []).append(layer)
        for group in groups.values():  # one object, one layer: `lower` makes equal layers the same object
            with self.multiplied(len(group)):
                x = group[0](self, x, *shared)
        return x


class _Booked(Bound):
    """A scope that tells the counter which component its body's work is booked under."""

    def __call__(self, t: Counter, *xs: Any) -> Any:
        with t.booked(self.component or t.component):
            return super().__call__(t, *xs)


def count_flops(model: Model) -> Flops:
    """The FLOPs of one call, by component, as polynomials in batch and lengths."""
    counter, scope = Counter(), _Booked(model)
    memory = None
    if model.form == "encoder_decoder":
        with counter.multiplied(FIRST):
            memory = model.encode(counter, scope, (B, M))
    model.forward(counter, scope, (B, T), memory)
    return counter.flops
