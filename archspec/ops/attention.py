"""Attention: the operations that mix positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from .base import Children, Op
from .leaves import Leaf, Linear, Slot, Stream, Table, Vector
from .norms import Norm
from .record import Record
from .words import Activation, Buckets, Distances, Rope, Scope, Scores, Temperature, V, Words


class QKNorm(Record):
    """Norms of q and k: over each head, or (`vector`) over the whole projection before it is split."""

    q: Norm
    k: Norm
    over: Literal["head", "vector"] = "head"
    order: Literal["before_rope", "after_rope"] = "before_rope"

    def at(self, *site: str) -> bool:
        """Does it stand at this site: (`vector`) or (`head`, order)?"""
        return (self.over, self.order)[: len(site)] == site


class OutputGate(Record):
    """merged heads · activation(linear x + bias), a value a channel or a head; a bias a value or a head."""

    activation: Activation
    per_head: bool = False
    bias: Literal["none", "value", "head"] = "none"

    @property
    def shared_bias(self) -> bool:
        """Is one number the bias of all channels of a head?"""
        return self.bias == "head" and not self.per_head

    def values(self, t: Words[V], w: Scope, x: V) -> V:
        """B T D -> B T H·C', or B T H where there is one a head."""
        g = t.linear(x, w.gate)
        return t.activate(t.add_heads(g, w.gate_bias) if self.shared_bias else g, self.activation)


class DistanceTable(Op):
    """The rows of a stack's table of distances, normed: what contents are compared with in disentangled attention."""

    component: ClassVar[str] = "attention"

    width: int
    distances: Distances
    norm: Norm | None = None
    dropout: float = 0.0

    def leaves(self) -> Mapping[str, Leaf]:
        return {"table": Table(self.distances.rows, self.width)}

    def children(self) -> Children:
        return {"norm": self.norm} if self.norm else {}

    def forward(self, t: Words[V], w: Scope) -> V:
        rows = t.table(w.table)  # 1 R D
        return t.dropout(w.norm(t, rows) if self.norm else rows, self.dropout)


class Disentangled(Record):
    """Scores of contents against distances    (DeBERTa, arXiv 2006.03654, equation 4)."""

    table: DistanceTable
    #: Are queries compared with distances (c2p), and distances with keys (p2c)?
    c2p: bool
    p2c: bool
    #: Have distances linears of their own, or those of q and k?
    own: bool

    @property
    def terms(self) -> int:
        return 1 + self.c2p + self.p2c


class _Heads(Op):
    component: ClassVar[str] = "attention"

    width: int
    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    scores: Scores
    bias: tuple[str, ...] = ()
    clip: float | None = None
    rope: Rope | None = None
    qk_norm: QKNorm | None = None
    v_norm: Norm | None = None
    out_norm: Norm | None = None
    gate: OutputGate | None = None
    #: Of each head's result, before a gate.
    head_norm: Norm | None = None

    def leaves(self) -> Mapping[str, Leaf]:
        q, k, v = self.heads * self.head_dim, self.kv_heads * self.head_dim, self.kv_heads * self.v_head_dim
        leaves: dict[str, Leaf] = {
            "q": Linear(self.width, q, "q" in self.bias),
            "k": Linear(self.width, k, "k" in self.bias),
            "v": Linear(self.width, v, "v" in self.bias),
            "o": Linear(self.heads * self.v_head_dim, self.width, "o" in self.bias, residual=True),
        }
        if self.gate:
            values = self.heads if self.gate.per_head else self.heads * self.v_head_dim
            leaves["gate"] = Linear(self.width, values, self.gate.bias != "none" and not self.gate.shared_bias)
            if self.gate.shared_bias:
                leaves["gate_bias"] = Vector((self.heads,), 0.0)
        return leaves

    def children(self) -> Children:
        norms = {"v_norm": self.v_norm, "head_norm": self.head_norm, "out_norm": self.out_norm}
        if self.qk_norm:
            norms |= {"q_norm": self.qk_norm.q, "k_norm": self.qk_norm.k}
        return {name: norm for name, norm in norms.items() if norm}

    def clipped(self, t: Words[V], x: V) -> V:
        return t.clamp(x, -self.clip, self.clip) if self.clip else x

    def turned(self, t: Words[V], x: V, stream: Stream) -> V:
        return t.rope(x, t.positions(stream), self.rope) if self.rope else x

    def queries(self, t: Words[V], w: Scope, x: V, stream: Stream, leaf: Any = None) -> V:
        """B T D -> B H T C, by q or another leaf of its shape."""
        norm = w.q_norm if self.qk_norm else None
        return self.side(t, x, w.q if leaf is None else leaf, norm, self.heads, stream)

    def keys(self, t: Words[V], w: Scope, x: V, stream: Stream, leaf: Any = None) -> V:
        """B T D -> B K T C, by k or another leaf of its shape."""
        norm = w.k_norm if self.qk_norm else None
        return self.side(t, x, w.k if leaf is None else leaf, norm, self.kv_heads, stream)

    def side(self, t: Words[V], x: V, leaf: Any, norm: Any, heads: int, stream: Stream) -> V:
        """Queries or keys: projected, clipped, split into heads; normed on one side of the rotation."""
        qk_norm, y = self.qk_norm, t.linear(x, leaf)
        if qk_norm and qk_norm.at("vector"):
            y = norm(t, y)
        y = t.split_heads(self.clipped(t, y), heads, self.head_dim)
        if qk_norm and qk_norm.at("head", "before_rope"):
            y = norm(t, y)
        y = self.turned(t, y, stream)
        if qk_norm and qk_norm.at("head", "after_rope"):
            y = norm(t, y)
        return y

    def values(self, t: Words[V], w: Scope, x: V) -> V:
        v = t.split_heads(self.clipped(t, t.linear(x, w.v)), self.kv_heads, self.v_head_dim)  # B K T C'
        return w.v_norm(t, v) if self.v_norm else v

    def output(self, t: Words[V], w: Scope, x: V, y: V) -> V:
        """x B T D is what the gate reads, y B H T C' the heads."""
        gate = self.gate.values(t, w, x) if self.gate else None
        if self.head_norm:
            y = w.head_norm(t, y)
        if gate is not None and self.gate and self.gate.per_head:
            y = t.mul_heads(y, gate)
        y = t.merge_heads(y)  # B T H·C'
        if self.out_norm:
            y = w.out_norm(t, y)
        if gate is not None and self.gate and not self.gate.per_head:
            y = t.mul(y, gate)
        return t.linear(y, w.o)


class Attention(_Heads):
    """o( softmax( scale · q kᵀ + mask ) v ) over its own stack's tokens    (arXiv 1706.03762, grouped heads 2305.13245)."""

    #: A decoder's keys and values are kept between calls.
    cached: bool = True
    sinks: bool = False
    temperature: Temperature | None = None
    #: Is the table of a bucketed bias one for the whole stack?
    table_of_stack: bool = False
    disentangled: Disentangled | None = None

    def of_stack(self) -> tuple[str, ...]:
        return ("table",) * self.table_of_stack + ("distances",) * bool(self.disentangled)

    def leaves(self) -> Mapping[str, Leaf]:
        leaves = dict(super().leaves())
        if isinstance(self.scores.bias, Buckets):
            leaves["table"] = Table(self.scores.bias.count, self.heads)
        if self.sinks:
            leaves["sinks"] = Vector((self.heads,), 0.0)
        if self.disentangled and self.disentangled.own:
            there = {"q": self.disentangled.p2c, "k": self.disentangled.c2p}
            leaves |= {f"distance_{side}": leaves[side] for side, is_there in there.items() if is_there}
        return leaves

    def children(self) -> Children:
        table = {"distances": self.disentangled.table} if self.disentangled else {}
        return {**super().children(), **table}

    def state(self) -> Mapping[str, Slot]:
        if not self.cached:
            return {}
        rows = self.scores.mask.rows
        return {
            "key": Slot(self.kv_heads, self.head_dim, rows=rows),
            "value": Slot(self.kv_heads, self.v_head_dim, rows=rows),
        }

    def forward(self, t: Words[V], w: Scope, x: V) -> V:
        stream = self.scores.mask.keys
        q = self.queries(t, w, x, stream)  # B H T C
        k = self.keys(t, w, x, stream)  # B K T C
        v = self.values(t, w, x)  # B K T C'
        if self.temperature:
            q = t.temper(q, t.positions(stream), self.temperature)
        cache = (w.key, w.value) if self.cached else None
        learned = {"table": w.table} if isinstance(self.scores.bias, Buckets) else {}
        if self.sinks:
            learned["sinks"] = w.sinks
        if self.disentangled:
            if cache:
                k, v, cache = t.remember(k, w.key), t.remember(v, w.value), None  # B K S C, B K S C'
            learned["added"] = self.against_distances(t, w, self.disentangled, q, k)
        y = t.attend(q, k, v, self.scores, cache, **learned)  # B H T C'
        return self.output(t, w, x, y)

    def against_distances(self, t: Words[V], w: Scope, d: Disentangled, q: V, k: V) -> V:
        """B H T C, B K S C -> B H T S"""
        rows, stream, scale = w.distances(t), self.scores.mask.keys, self.scores.scale  # 1 R D
        row_q = row_k = None
        if d.p2c:
            row_q = t.scale(self.queries(t, w, rows, stream, w.distance_q if d.own else None), scale)  # 1 H R C
        if d.c2p:
            row_k = t.scale(self.keys(t, w, rows, stream, w.distance_k if d.own else None), scale)  # 1 K R C
        return t.relate(q, k, row_q, row_k, d.table.distances, self.scores.mask)


class CrossAttention(_Heads):
    """Attention to the encoder's output, whose keys and values are computed once a request."""

    component: ClassVar[str] = "cross_attention"
    reads_memory: ClassVar[bool] = True

    def state(self) -> Mapping[str, Slot]:
        return {
            "key": Slot(self.kv_heads, self.head_dim, "source"),
            "value": Slot(self.kv_heads, self.v_head_dim, "source"),
        }

    def forward(self, t: Words[V], w: Scope, x: V, memory: V) -> V:
        q = self.queries(t, w, x, "tokens")  # B H T C
        k, v = t.once(
            (w.key, w.value), lambda: (self.keys(t, w, memory, "source"), self.values(t, w, memory))
        )  # B K M C, B K M C'
        return self.output(t, w, x, t.attend(q, k, v, self.scores))
