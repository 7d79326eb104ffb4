"""Latent attention: keys and values are made from a narrow latent, which is all that is cached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from .base import Children, Op
from .leaves import Leaf, Linear, Slot
from .norms import Norm
from .words import Rope, Scope, Scores, Temperature, V, Words


class LatentAttention(Op):
    """c = norm(kv_down x), k = [k_up c ; rope(k_rope x)], v = v_up c, q = q_up norm(q_down x)    (DeepSeek-V2, arXiv 2405.04434).

    R is the rank of c, N and r the channels of a head that do not turn and that do; the rotary key is one for all heads. The
    cache holds c and the turned rotary key: R + r numbers a token.
    """

    component: ClassVar[str] = "attention"

    width: int
    heads: int
    kv_rank: int
    nope: int
    turning: int
    v_head_dim: int
    scores: Scores
    q_rank: int | None = None
    rope: Rope | None = None
    q_norm: Norm | None = None
    kv_norm: Norm | None = None
    temperature: Temperature | None = None
    #: A decoder's latents are kept between calls.
    cached: bool = True

    def leaves(self) -> Mapping[str, Leaf]:
        h, wide = self.heads, self.heads * (self.nope + self.turning)
        if self.q_rank:
            q: dict[str, Leaf] = {"q_down": Linear(self.width, self.q_rank), "q_up": Linear(self.q_rank, wide)}
        else:
            q = {"q": Linear(self.width, wide)}
        return {
            **q,
            "kv_down": Linear(self.width, self.kv_rank),
            "k_rope": Linear(self.width, self.turning),
            "k_up": Linear(self.kv_rank, h * self.nope),
            "v_up": Linear(self.kv_rank, h * self.v_head_dim),
            "o": Linear(h * self.v_head_dim, self.width, residual=True),
        }

    def children(self) -> Children:
        norms = {"q_norm": self.q_norm if self.q_rank else None, "kv_norm": self.kv_norm}
        return {name: norm for name, norm in norms.items() if norm}

    def state(self) -> Mapping[str, Slot]:
        if not self.cached:
            return {}
        rows = self.scores.mask.rows
        return {"latent": Slot(1, self.kv_rank, rows=rows), "rope_key": Slot(1, self.turning, rows=rows)}

    def queries(self, t: Words[V], w: Scope, x: V) -> V:
        if self.q_rank is None:
            return t.linear(x, w.q)
        c = t.linear(x, w.q_down)
        return t.linear(w.q_norm(t, c) if self.q_norm else c, w.q_up)

    def turned(self, t: Words[V], x: V) -> V:
        return t.rope(x, t.positions(self.scores.mask.keys), self.rope) if self.rope else x

    @property
    def step(self) -> int | None:
        """New tokens after a past up to which attention on the latents themselves costs less than on keys and values made of them.

        A pair costs 2R + r products a head there and N + r + C' here; bringing T tokens to the latents and back T · R (N + C'),
        making keys and values S times as much: T < R (N + C') / (2R - N - C') where S is many. None: any number.
        """
        made = self.nope + self.v_head_dim
        more = 2 * self.kv_rank - made
        return self.kv_rank * made // more if more > 0 else None

    def on_latents(self, t: Words[V], w: Scope, q_nope: V, q_rope: V, c: V, k_rope: V) -> V:
        """B T H·C': q · (k_up c) is (k_upᵀ q) · c, and Σ a (v_up c) is v_up (Σ a c). One key head serves all; section 2.1.2."""
        q = t.concat(t.back_by_head(q_nope, w.k_up, self.heads), q_rope)  # B H T R+r
        y = t.attend(q, t.concat(c, k_rope), c, self.scores)  # B H T R
        return t.merge_heads(t.by_head(y, w.v_up, self.heads))

    def on_keys(self, t: Words[V], w: Scope, q_nope: V, q_rope: V, c: V, k_rope: V) -> V:
        """B T H·C'"""
        k = t.concat(t.by_head(c, w.k_up, self.heads), k_rope)  # B H S N+r
        v = t.by_head(c, w.v_up, self.heads)  # B H S C'
        return t.merge_heads(t.attend(t.concat(q_nope, q_rope), k, v, self.scores))

    def forward(self, t: Words[V], w: Scope, x: V) -> V:
        q = t.split_heads(self.queries(t, w, x), self.heads, self.nope + self.turning)  # B H T N+r
        if self.temperature:
            q = t.temper(q, t.positions(self.scores.mask.keys), self.temperature)
        q_nope, q_rope = t.split(q, (self.nope, self.turning))
        q_rope = self.turned(t, q_rope)
        c = t.linear(x, w.kv_down)  # B T R
        c = t.split_heads(w.kv_norm(t, c) if self.kv_norm else c, 1, self.kv_rank)
        k_rope = self.turned(t, t.split_heads(t.linear(x, w.k_rope), 1, self.turning))  # B 1 T r
        if not self.cached:
            return t.linear(self.on_keys(t, w, q_nope, q_rope, c, k_rope), w.o)
        c, k_rope = t.remember(c, w.latent), t.remember(k_rope, w.rope_key)  # B 1 S R, B 1 S r
        given = q_nope, q_rope, c, k_rope
        y = t.stepping(self.step, lambda: self.on_latents(t, w, *given), lambda: self.on_keys(t, w, *given))
        return t.linear(y, w.o)
