"""Memory of training: bytes of gradients, optimizer state, and of the activations that a step keeps for its backward pass.

Activations are counted by one more reading of the bodies: each word says which of its tensors PyTorch's eager autograd saves,
and a tensor that several words save is held once. Fused kernels are assumed, as on CUDA: norms keep their input and a number
a row, attention no T × S matrix but what contents and distances add to its scores, and capped ones, which have no fused form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from archspec.ops.bind import Bound, LeafRef, SlotRef
from archspec.ops.head import LmHead
from archspec.ops.model import Model
from archspec.ops.record import Record
from archspec.ops.words import Activation, Distances, Mask, Rope, Routing, Scores, Sinusoid, Temperature

from .flops import B, Counter, Dim, Lengths, M, Shape, T, linear_of
from .parameters import count_parameters
from .poly import Poly

#: Activations whose gradient is read off the output instead of the input.
_FROM_OUTPUT = ("relu", "tanh", "sigmoid")


class Training(Record):
    """Bytes of one training step with AdamW, beside the weights.

    In half precision the optimizer keeps a float32 master copy of the weights beside its two moments. `checkpointed` is what
    is left of the activations when each layer keeps its input only and is recomputed: those inputs, and one whole layer.
    """

    gradients: int
    optimizer: int
    activations: int
    checkpointed: int

    @property
    def total(self) -> int:
        return self.gradients + self.optimizer + self.activations


def training_memory(model: Model, lengths: Lengths, width: int) -> Training:
    """Bytes of a training step on `lengths.batch` sequences of `lengths.length` tokens, in numbers of `width` bytes."""
    n = count_parameters(model).total
    saved = Saved(width)
    scope, memory = Bound(model), None
    if model.form == "encoder_decoder":
        memory = model.encode(saved, scope, Held((B, M)))
    logits = model.forward(saved, scope, Held((B, T)), memory)
    if isinstance(model.head, LmHead):
        saved.keep(Held(logits))  # the loss keeps the log-probabilities
    value = saved.flops.value(lengths)
    moments = 8 + (4 if width < 4 else 0)
    inputs, layer = saved.inputs.at(value), max((p.at(value) for p, _ in saved.folded), default=0)
    outside = saved.bytes.at(value) - sum(p.at(value) * times for p, times in saved.folded)
    return Training(n * width, n * moments, saved.bytes.at(value), outside + inputs + layer)


class Held(tuple[Dim, ...]):
    """A shape that knows whose memory it is: views share their `storage`."""

    storage: object

    def __new__(cls, shape: Shape, storage: object = None) -> Held:
        held = super().__new__(cls, shape)
        held.storage = storage or object()
        return held


class Saved(Counter):
    """The words, on shapes, tallying the bytes that autograd keeps."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.bytes = Poly()
        self.held: set[object] = set()
        #: Of the folded layers: bytes of each distinct one and how often it stands, and of all their inputs.
        self.folded: list[tuple[Poly, int]] = []
        self.inputs = Poly()

    def keep(self, *xs: Shape) -> None:
        """These are saved, each storage once."""
        for x in xs:
            if isinstance(x, Held) and x.storage not in self.held:
                self.held.add(x.storage)
                self.add_bytes(Poly.product(x) * self.width)

    def add_bytes(self, n: Poly) -> None:
        self.bytes = self.bytes + n * self.times

    # ---- weights

    def linear(self, x: Shape, w: LeafRef) -> Shape:
        self.keep(x)
        return Held(super().linear(x, w))

    def by_head(self, x: Shape, w: LeafRef, heads: int) -> Shape:
        self.keep(x)
        return Held(super().by_head(x, w, heads))

    def back_by_head(self, x: Shape, w: LeafRef, heads: int) -> Shape:
        self.keep(x)
        return Held(super().back_by_head(x, w, heads))

    def embedding(self, ids: Shape, w: LeafRef, offset: int = 0) -> Shape:
        return Held(super().embedding(ids, w, offset))

    def rms_norm(self, x: Shape, w: LeafRef | None, eps: float, shift: float) -> Shape:
        self.keep(x)
        self.add_bytes(Poly.product(x[:-1]) * 4)  # the reciprocal root, float32
        return Held(x)

    def layer_norm(
        self, x: Shape, w: LeafRef | None, b: LeafRef | None, eps: float, shift: float, outside: bool
    ) -> Shape:
        self.keep(x)
        self.add_bytes(Poly.product(x[:-1]) * 8)  # mean and reciprocal deviation, float32
        return Held(x)

    def l2_norm(self, x: Shape, eps: float) -> Shape:
        self.keep(x)
        return Held(x)

    # ---- shape: views

    def split_heads(self, x: Shape, heads: int, width: int) -> Shape:
        return Held(super().split_heads(x, heads, width), getattr(x, "storage", None))

    def merge_heads(self, x: Shape) -> Shape:
        return Held(super().merge_heads(x), getattr(x, "storage", None))

    def split(self, x: Shape, widths: tuple[int, ...]) -> Sequence[Shape]:
        return [Held(each, getattr(x, "storage", None)) for each in super().split(x, widths)]

    def concat(self, a: Shape, b: Shape) -> Shape:
        return Held(super().concat(a, b))

    # ---- elementwise

    def add(self, a: Shape, b: Shape) -> Shape:
        return Held(a)

    def mul(self, a: Shape, b: Shape) -> Shape:
        self.keep(a, b)
        return Held(a)

    def mul_heads(self, x: Shape, g: Shape) -> Shape:
        self.keep(x, g)
        return Held(x)

    def add_heads(self, x: Shape, w: LeafRef) -> Shape:
        return Held(x)

    def weigh(self, x: Shape, w: LeafRef, shift: float) -> Shape:
        self.keep(x)
        return Held(x)

    def blend(self, x: Shape, f: Shape, w: LeafRef, temperature: float, floor: float) -> Shape:
        self.keep(x, f)
        return Held(x)

    def scale(self, x: Shape, by: float) -> Shape:
        return Held(x)

    shift = scale

    def clamp(self, x: Shape, low: float | None, high: float | None) -> Shape:
        self.keep(x)
        return Held(x)

    def softcap(self, x: Shape, cap: float) -> Shape:
        self.keep(y := Held(x))
        return Held(y)

    def activate(self, x: Shape, kind: Activation) -> Shape:
        if kind == "identity":
            return x
        y = Held(x)
        self.keep(y if kind in _FROM_OUTPUT else x)
        return y

    def xielu(self, x: Shape, positive: LeafRef, negative: LeafRef) -> Shape:
        self.keep(x)
        return Held(x)

    def dropout(self, x: Shape, p: float) -> Shape:
        if not p:
            return x
        self.add_bytes(Poly.product(x))  # the mask, a byte each
        return Held(x)

    # ---- positions

    def sinusoid(self, x: Shape, positions: Shape, table: Sinusoid, offset: int = 0) -> Shape:
        return Held(x)

    def rope(self, x: Shape, positions: Shape, rope: Rope) -> Shape:
        return Held(x)

    def temper(self, x: Shape, positions: Shape, temperature: Temperature) -> Shape:
        return Held(x)

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
        b, h, t, _ = q
        y = Held(super().attend(q, k, v, scores, None))
        self.keep(q, k, v, y)
        if added:
            self.keep(added)
        if scores.softcap or sinks:
            self.add_bytes(Poly.product((b, h, t, k[2])) * (2 * self.width))  # capped scores and probabilities
        else:
            self.add_bytes(Poly.product((b, h, t)) * 4)  # log-sum-exp, float32
        return y

    def relate(
        self, q: Shape, k: Shape, row_q: Shape | None, row_k: Shape | None, distances: Distances, mask: Mask
    ) -> Shape:
        b, h, _, _ = q
        for row, x in ((row_q, k), (row_k, q)):
            if row:
                self.keep(x, row, Held((b, h, x[2], distances.rows)))  # a pick keeps what it picked from
        return Held(super().relate(q, k, row_q, row_k, distances, mask))

    def remember(self, x: Shape, slot: SlotRef) -> Shape:
        return x

    def once(self, slots: Sequence[Any], make: Callable[[], Sequence[Shape]]) -> Sequence[Shape]:
        return make()

    def stepping(self, most: int | None, step: Callable[[], Shape], whole: Callable[[], Shape]) -> Shape:
        return whole()

    # ---- experts

    def route(self, x: Shape, w: LeafRef, bias: LeafRef | None, routing: Routing) -> tuple[Shape, Shape]:
        weights, chosen = super().route(x, w, bias, routing)
        self.keep(x, Held((*x[:-1], linear_of(w).out)), kept := Held(weights))
        return kept, chosen

    def experts(self, x: Shape, weights: Shape, chosen: Shape, on_input: bool, body: Callable[[Shape], Shape]) -> Shape:
        y = body(Held((*x[:-1], chosen[-1], x[-1])))
        self.keep(y)  # times its weight
        return Held((*y[:-2], y[-1]))

    # ---- structure

    @contextmanager
    def multiplied(self, by: Poly | int) -> Iterator[None]:
        """A layer that stands `by` times: what one keeps is noted by itself as well."""
        before, self.bytes = self.bytes, Poly()
        saved, self.times = self.times, 1
        yield
        one, self.times = self.bytes, saved
        assert isinstance(by, int)
        self.folded.append((one, by))
        self.bytes = before + one * by

    def fold(self, layers: Sequence[Bound], x: Shape, *shared: Shape) -> Shape:
        self.inputs = self.inputs + Poly.product(x) * (self.width * len(layers))
        return super().fold(layers, x, *shared)
