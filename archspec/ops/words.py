"""The vocabulary: the words an operation's body may say, and their static configuration.

Letters: B batch, T new tokens, P past tokens, S keys (P + T, or M for a source of M tokens), D model width, H query heads,
K key/value heads, C head width, F ffn width, V vocabulary. V is also the type of an interpreter's tensor: a shape when
counting, a tensor in PyTorch, a graph value in ONNX. One word has one shape signature; what is constant about a word is one
frozen record, so that interpreters can memoise tables and masks by it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor, log
from typing import Any, Literal, Protocol, TypeVar

from .leaves import Stream
from .record import Record
from .rotary import Rope as Rope

V = TypeVar("V")


class Mask(Record):
    """Who sees whom, as a fact about positions i (query) and j (key); a position of -1 is padding and is never seen.

    causal: j ≤ i. With `prefix`, keys before the run's prefix length are seen too. full: every j.
    window w: causal i - w < j, full |i - j| ≤ w. chunk c: floor(i / c) = floor(j / c).
    """

    kind: Literal["causal", "prefix", "full"] = "causal"
    window: int | None = None
    chunk: int | None = None
    keys: Stream = "tokens"

    @property
    def rows(self) -> int | None:
        """How many of the latest keys a later query can still see; None: all of them."""
        return None if self.kind != "causal" else self.window or self.chunk


class Alibi(Record):
    """-slope_h · (i - j) on the scores, |i - j| where both sides are seen    (Press et al. 2021, arXiv 2108.12409).

    Slopes are 2^(-max_bias (h + 1) / H); where H is no power of two, those of the power below it, then every other one of
    twice that power, as the paper's code has it.
    """

    heads: int
    max_bias: float = 8.0
    #: Is the bias scaled like q · k?
    scaled: bool = False

    def slopes(self) -> list[float]:
        """One number a head."""
        power = 1 << (self.heads.bit_length() - 1)
        slopes = [2.0 ** (-self.max_bias * (h + 1) / power) for h in range(power)]
        between = [2.0 ** (-self.max_bias * (h + 1) / (2 * power)) for h in range(0, 2 * power, 2)]
        return (slopes + between)[: self.heads]


class Buckets(Record):
    """table[bucket(j - i), h] on the scores: near distances one by one, far ones in log-spaced buckets    (arXiv 1910.10683)."""

    count: int
    max_distance: int
    two_sided: bool

    def of_distance(self) -> list[int]:
        """The bucket of each distance 0 ... max_distance, on which all farther ones are too. Two-sided: half of the buckets,
        those for j ≤ i; the other half follows."""
        count = self.count // 2 if self.two_sided else self.count
        near = count // 2

        def bucket(distance: int) -> int:
            if distance < near:
                return distance
            share = log(distance / near) / log(self.max_distance / near)
            return min(near + floor(share * (count - near) + 1e-9), count - 1)  # exact at a power

        return [bucket(d) for d in range(self.max_distance + 1)]


class Distances(Record):
    """The row of a table for a distance i - j, 2 · buckets rows in all: buckets + the signed bucket of i - j    (arXiv 2006.03654).

    Distances up to half of the buckets have one each, farther ones share log-spaced ones up to `max_distance`, as in the code of
    DeBERTa v3; without it every distance has its own. What lies past the table's ends is on its last row.
    """

    buckets: int
    max_distance: int | None = None

    @property
    def rows(self) -> int:
        return 2 * self.buckets

    def of_distance(self) -> list[int]:
        """The bucket of each distance 0, 1, … up to the first that is past the table's end, on which all farther ones are too."""
        middle = self.buckets // 2

        def bucket(distance: int) -> int:
            if self.max_distance is None or distance <= middle:
                return distance
            share = log(distance / middle) / log((self.max_distance - 1) / middle)
            return middle + ceil(share * (middle - 1) - 1e-9)  # exact at a power

        found = [0]
        while found[-1] < self.buckets:
            found.append(bucket(len(found)))
        return found


class Scores(Record):
    """softmax( cap · tanh(s / cap) + bias + mask ), s = scale · q kᵀ (+ added); with dropout of the probabilities in training."""

    mask: Mask
    scale: float
    softcap: float | None = None
    dropout: float = 0.0
    bias: Alibi | Buckets | None = None


class Temperature(Record):
    """1 + slope · ln(1 + floor((position + offset) / period)), times a query    (Llama 4).

    power: (1 + (position + offset) / period)^slope instead.
    """

    slope: float
    period: int
    offset: int = 1
    power: bool = False


class Routing(Record):
    """s = score(logits); chosen = top k of s + selection bias; weight = scale · s[chosen] (/ their sum).

    Without groups and a bias on s, the top k are ranked by logit: the same order, and none is lost where s saturates.

    `bias_on`: where the selection bias is added. Groups: experts in equal groups, only the best `keep` may be chosen from.
    sparsemixer: one choice after the other, each the best logit m of those left; its weight is its share of a softmax over those
    left with m - logit ≤ within · max(|logit|, m)    (arXiv 2409.12136).
    """

    k: int
    score: Literal["softmax", "sigmoid", "sparsemixer"]
    normalize: bool
    scale: float = 1.0
    bias_on: Literal["score", "logit"] = "score"
    groups: int = 1
    keep: int = 1
    group_score: Literal["max", "top2_sum"] = "max"
    within: float = 0.0


class Sinusoid(Record):
    """sin and cos of position · base^(-2i/width)    (arXiv 1706.03762, section 3.5)."""

    width: int
    base: float = 10000.0
    halves: bool = False

    def frequencies(self) -> list[float]:
        """Radians per position for each of the ceil(width/2) pairs, in float64."""
        return [self.base ** (-2.0 * i / self.width) for i in range((self.width + 1) // 2)]


Activation = Literal[
    "relu", "relu_squared", "gelu", "gelu_tanh", "gelu_tanh_8", "quick_gelu", "silu", "mish", "tanh", "sigmoid", "softplus",
    "identity",
]  # fmt: skip
Counting = Literal["every", "unpadded"]
Pool = Literal["first", "last", "mean"]


class Scope(Protocol):
    """An operation's own place in the model: `w.q` a leaf, `w.norm(t, x)` a bound child, `w.layers` children, `w.key` a slot."""

    def __getattr__(self, name: str) -> Any: ...


class Words(Protocol[V]):
    """One run of an interpreter. It owns positions, masks and the cache of this call; modules hold nothing of a call."""

    # ---- weights
    def linear(self, x: V, w: Any) -> V:
        """... I, leaf (O I) -> ... O.  2·rows·I·O FLOPs"""
        ...

    def by_head(self, x: V, w: Any, heads: int) -> V:
        """B (H or 1) T I, leaf (H·O I) without bias -> B H T O: each head by its own rows of w.  2·B·H·T·I·O FLOPs"""
        ...

    def back_by_head(self, x: V, w: Any, heads: int) -> V:
        """B H T O, leaf (H·O I) without bias -> B H T I: by their transpose. x · by_head(c) is back_by_head(x) · c"""
        ...

    def embedding(self, ids: V, w: Any, offset: int = 0) -> V:
        """B T, leaf (rows D) -> B T D: row id + offset.  0 FLOPs"""
        ...

    def table(self, w: Any) -> V:
        """leaf (rows D) -> 1 rows D: all of it.  0 FLOPs"""
        ...

    def rms_norm(self, x: V, w: Any, eps: float, shift: float) -> V:
        """... C, vector (C) or (H 1 C) or None -> ... C: x / sqrt(mean x² + eps) · (shift + w)"""
        ...

    def layer_norm(self, x: V, w: Any, b: Any, eps: float, shift: float, outside: bool) -> V:
        """... C -> ... C: (x - mean) / sqrt(var + eps) · (shift + w) + b; outside: / (sqrt(var) + eps)"""
        ...

    def l2_norm(self, x: V, eps: float) -> V:
        """... C -> ... C: x / max(‖x‖, eps)"""
        ...

    # ---- shape
    def split_heads(self, x: V, heads: int, width: int) -> V:
        """B T H·C -> B H T C. Fewer heads may be present under tensor parallelism: the width decides"""
        ...

    def merge_heads(self, x: V) -> V:
        """B H T C -> B T H·C"""
        ...

    def split(self, x: V, widths: tuple[int, ...]) -> Sequence[V]:
        """... ΣC -> ... C each, along the last axis"""
        ...

    def concat(self, a: V, b: V) -> V:
        """B H T C, B (H or 1) T C' -> B H T C + C': one head of b serves all of a's"""
        ...

    # ---- elementwise
    def add(self, a: V, b: V) -> V:
        """a + b, same shape"""
        ...

    def mul(self, a: V, b: V) -> V:
        """a · b, same shape, or b with 1 in its last place"""
        ...

    def mul_heads(self, x: V, g: V) -> V:
        """B H T C, B T H -> B H T C: each head times its own number"""
        ...

    def add_heads(self, x: V, w: Any) -> V:
        """B T H·C, vector (H) -> B T H·C: each head plus its own number"""
        ...

    def weigh(self, x: V, w: Any, shift: float) -> V:
        """... C, vector (C) or (H 1 C) -> ... C: x · (shift + w)"""
        ...

    def blend(self, x: V, f: V, w: Any, temperature: float, floor: float) -> V:
        """... D, ... D, vector (D) -> ... D: sqrt(max(1 - b², floor)) · x + b · f, b = sigmoid(w / temperature)"""
        ...

    def scale(self, x: V, by: float) -> V:
        """x · by"""
        ...

    def shift(self, x: V, by: float) -> V:
        """x + by"""
        ...

    def clamp(self, x: V, low: float | None, high: float | None) -> V:
        """x limited to [low, high]"""
        ...

    def softcap(self, x: V, cap: float) -> V:
        """cap · tanh(x / cap)"""
        ...

    def activate(self, x: V, kind: Activation) -> V:
        """The activation, elementwise"""
        ...

    def xielu(self, x: V, positive: Any, negative: Any) -> V:
        """x, two vectors (1) -> x: p·x² + x/2 above 0, n·(eˣ - 1 - x) + x/2 below    (arXiv 2411.13010)

        p = softplus(positive), n = 1/2 + softplus(negative). As in its authors' code, eˣ takes no x above -1e-6.
        """
        ...

    def dropout(self, x: V, p: float) -> V:
        """x with a share p of its values dropped and the rest / (1 - p), while training; otherwise x"""
        ...

    # ---- positions
    def positions(self, stream: Stream, count: Counting = "unpadded") -> V:
        """-> B T (int), padding -1. every: padding between tokens takes a position as well; leading padding never does"""
        ...

    def token_types(self, stream: Stream) -> V:
        """-> B T (int): the run's token types, 0 where none are given"""
        ...

    def sinusoid(self, x: V, positions: V, table: Sinusoid, offset: int = 0) -> V:
        """B T D, B T -> B T D: x + table[position + offset]"""
        ...

    def rope(self, x: V, positions: V, rope: Rope) -> V:
        """B H T C, B T -> B H T C: the first rope.dim channels turned, the rest passed"""
        ...

    def temper(self, x: V, positions: V, temperature: Temperature) -> V:
        """B H T C, B T -> B H T C: x · temperature(position)"""
        ...

    # ---- attention
    def attend(
        self,
        q: V,
        k: V,
        v: V,
        scores: Scores,
        cache: tuple[Any, Any] | None = None,
        *,
        added: V | None = None,
        table: Any = None,
        sinks: Any = None,
    ) -> V:
        """B H T C, B K S C, B K S C' -> B H T C'.  dense 2·B·H·T·S·(C + C') FLOPs, causal: pairs for T·S

        With `cache`, two slots, k and v are those of the new tokens and the past comes from the slots. `added`, B H T S, joins the
        scaled products. `table` is the leaf (buckets H) of a bucketed bias; `sinks` a vector (H) of logits that join the softmax
        and are dropped.
        """
        ...

    def relate(self, q: V, k: V, row_q: V | None, row_k: V | None, distances: Distances, mask: Mask) -> V:
        """B H T C, B K S C, 1 H R C or None, 1 K R C or None -> B H T S: q_i · row_k[i - j] + row_q[i - j] · k_j

        R are the rows of a table, of which `distances` says the one for i - j; `mask` says where queries and keys stand.
        2·B·H·T·R·C FLOPs with row_k, 2·B·H·S·R·C with row_q: a product with every row, of which one is picked.
        """
        ...

    def remember(self, x: V, slot: Any) -> V:
        """B K T C -> B K S C: past ++ new. attend(q, k, v, cache=(a, b)) is attend(q, remember(k, a), remember(v, b))"""
        ...

    def once(self, slots: Sequence[Any], make: Callable[[], Sequence[V]]) -> Sequence[V]:
        """-> B K M C each: what `make` gives, computed on the first call of a request and kept in the slots"""
        ...

    def stepping(self, most: int | None, step: Callable[[], V], whole: Callable[[], V]) -> V:
        """What `step` gives in a call that has a past and at most `most` new tokens (None: any number), else what `whole` gives.

        Two ways to the same numbers, of which one is run and its FLOPs are counted.
        """
        ...

    # ---- experts
    def route(self, x: V, w: Any, bias: Any, routing: Routing) -> tuple[V, V]:
        """B T D, leaf (E D), vector (E) or None -> weights B T k, chosen B T k; scores in float32.  2·B·T·D·E FLOPs"""
        ...

    def experts(self, x: V, weights: V, chosen: V, on_input: bool, body: Callable[[V], V]) -> V:
        """B T D, B T k, B T k -> B T D: Σ over the chosen e of weight_e · body_e(x), or body_e(weight_e · x).

        `body` is run on the rows of each expert, and its leaves (stacked over experts) stand for that expert's own.
        """
        ...

    # ---- the ends of a model
    def wanted(self, x: V) -> V:
        """B T D -> B T D, or B 1 D where the run wants the last position only"""
        ...

    def pool(self, x: V, kind: Pool, stream: Stream) -> V:
        """B T D -> B D: the first or last token, or the mean over tokens; padding is left out"""
        ...

    # ---- structure
    def fold(self, layers: Sequence[Any], x: V, *shared: V) -> V:
        """x = layer(t, x, *shared) for each layer in order. Equal layers may be walked once and multiplied"""
        ...
