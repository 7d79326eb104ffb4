"""Feed-forward networks: a function of each position alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from .base import Children, Op
from .leaves import Leaf, Linear, Vector
from .norms import Norm
from .words import Activation, Scope, V, Words


class _Ffn(Op):
    component: ClassVar[str] = "ffn"

    width: int
    hidden: int
    activation: Activation | Literal["xielu"]
    bias: tuple[str, ...] = ()
    mid_norm: Norm | None = None
    dropout: float = 0.0
    #: Stacked over so many experts: what a mixture of experts holds.
    experts: int | None = None

    def children(self) -> Children:
        return {"mid_norm": self.mid_norm} if self.mid_norm else {}

    def widening(self, name: str) -> Linear:
        return Linear(self.width, self.hidden, name in self.bias, experts=self.experts)

    def narrowing(self) -> Linear:
        return Linear(self.hidden, self.width, "down" in self.bias, residual=True, experts=self.experts)

    def learned(self) -> dict[str, Leaf]:
        """The activation's own parameters, from 0.8 on either side; one pair for all experts."""
        return (
            {"alpha_p": Vector((1,), 0.20338), "alpha_n": Vector((1,), -1.05022)} if self.activation == "xielu" else {}
        )

    def activated(self, t: Words[V], w: Scope, x: V) -> V:
        return t.xielu(x, w.alpha_p, w.alpha_n) if self.activation == "xielu" else t.activate(x, self.activation)

    def narrowed(self, t: Words[V], w: Scope, h: V) -> V:
        """B T F -> B T D"""
        h = t.dropout(h, self.dropout)
        return t.linear(w.mid_norm(t, h) if self.mid_norm else h, w.down)


class Mlp(_Ffn):
    """down( act( up x ) )    (arXiv 1706.03762, section 3.3)."""

    def leaves(self) -> Mapping[str, Leaf]:
        return {"up": self.widening("up"), **self.learned(), "down": self.narrowing()}

    def forward(self, t: Words[V], w: Scope, x: V) -> V:
        return self.narrowed(t, w, self.activated(t, w, t.linear(x, w.up)))


class Gated(_Ffn):
    """down( act( gate x ) · (up x + up_shift) ), up and gate or act(gate) clamped where there is a clamp    (arXiv 2002.05202)."""

    clamp: float | None = None
    up_shift: float = 0.0
    #: Is the activated gate clamped, and not the gate?
    clamp_activated: bool = False

    def leaves(self) -> Mapping[str, Leaf]:
        return {"gate": self.widening("gate"), "up": self.widening("up"), **self.learned(), "down": self.narrowing()}

    def forward(self, t: Words[V], w: Scope, x: V) -> V:
        gate, up = t.linear(x, w.gate), t.linear(x, w.up)  # B T F
        if self.clamp and not self.clamp_activated:
            gate = t.clamp(gate, None, self.clamp)
        gate = self.activated(t, w, gate)
        if self.clamp and self.clamp_activated:
            gate = t.clamp(gate, None, self.clamp)
        if self.clamp:
            up = t.clamp(up, -self.clamp, self.clamp)
        if self.up_shift:
            up = t.shift(up, self.up_shift)
        return self.narrowed(t, w, t.mul(gate, up))
