"""The vocabulary: the words an operation's body may say, and their static configuration.

Letters: B batch, T new tokens, P past tokens, S keys (P + T, or M for a source of M tokens), D model width, H query heads,
K key/value heads, C head width, F ffn width, V vocabulary. V is also the type of an interpreter's tensor: a shape when
counting, a tensor in PyTorch, a graph value in ONNX. One word has one shape signature; what is constant about a word is one
frozen dataclass, so that interpreters can memoise tables and masks by it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from .leaves import Stream

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Mask:
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


@dataclass(frozen=True, slots=True)
class Scores:
    """softmax( cap · tanh(scale · q kᵀ / cap) + mask ), with dropout of the probabilities while training."""

    mask: Mask
    scale: float
    softcap: float | None = None
    dropout: float = 0.0


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions: channel pairs turn by position · theta^(-2i/dim)    (arXiv 2104.09864)."""

    dim: int
    theta: float = 10000.0
    interleaved: bool = False

    def frequencies(self) -> list[float]:
        """Radians per position for each of the dim/2 pairs, in float64."""
        return [self.theta ** (-2.0 * i / self.dim) for i in range(self.dim // 2)]


@dataclass(frozen=True, slots=True)
class Sinusoid:
    """sin and cos of position · base^(-2i/width)    (arXiv 1706.03762, section 3.5)."""

    width: int
    base: float = 10000.0
    halves: bool = False

    def frequencies(self) -> list[float]:
        """Radians per position for each of the ceil(width/2) pairs, in float64."""
        return [self.base ** (-2.0 * i / self.width) for i in range((self.width + 1) // 2)]


Activation = Literal[
    "relu", "relu_squared", "gelu", "gelu_tanh", "quick_gelu", "silu", "mish", "tanh", "sigmoid", "identity"
]
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

    def embedding(self, ids: V, w: Any, offset: int = 0) -> V:
        """B T, leaf (rows D) -> B T D: row id + offset.  0 FLOPs"""
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

    # ---- elementwise
    def add(self, a: V, b: V) -> V:
        """a + b, same shape"""
        ...

    def mul(self, a: V, b: V) -> V:
        """a · b, same shape"""
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

    # ---- attention
    def attend(self, q: V, k: V, v: V, scores: Scores, cache: tuple[Any, Any] | None = None) -> V:
        """B H T C, B K S C, B K S C' -> B H T C'.  dense 2·B·H·T·S·(C + C') FLOPs, causal: pairs for T·S

        With `cache`, two slots, k and v are those of the new tokens and the past comes from the slots.
        """
        ...

    def once(self, slots: Sequence[Any], make: Callable[[], Sequence[V]]) -> Sequence[V]:
        """-> B K M C each: what `make` gives, computed on the first call of a request and kept in the slots"""
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
