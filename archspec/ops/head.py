"""Heads: what is read off the last layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from .base import Children, Op
from .leaves import Leaf, Linear
from .norms import Norm
from .words import Activation, Scope, V, Words


class LmHead(Op):
    """softcap( scale · W t(h) + bias ), t(h) = norm( act( dense h ) ) where there is a transform."""

    component: ClassVar[str] = "head"

    width: int
    vocab: int
    #: Channels of W: those of the token table where it is tied.
    table_width: int
    tied: bool
    bias: bool = False
    scale: float = 1.0
    softcap: float | None = None
    #: Activation and bias of the dense layer before W.
    transform: tuple[Activation, bool] | None = None
    norm: Norm | None = None

    def leaves(self) -> Mapping[str, Leaf]:
        out = Linear(self.table_width, self.vocab, self.bias)
        if self.transform:
            return {"dense": Linear(self.width, self.table_width, self.transform[1]), "out": out}
        if self.table_width != self.width:
            return {"projection": Linear(self.width, self.table_width), "out": out}
        return {"out": out}

    def children(self) -> Children:
        return {"norm": self.norm} if self.norm else {}

    def forward(self, t: Words[V], w: Scope, h: V) -> V:
        h = t.wanted(h)
        if self.transform:
            h = t.activate(t.linear(h, w.dense), self.transform[0])
            h = w.norm(t, h) if self.norm else h
        elif self.table_width != self.width:
            h = t.linear(h, w.projection)
        if self.scale != 1.0:  # before W: the same function, on fewer numbers; a bias is not scaled
            h = t.scale(h, self.scale)
        y = t.linear(h, w.out)  # B T V
        return t.softcap(y, self.softcap) if self.softcap else y


class PoolerHead(Op):
    """act( dense h[first] )    (arXiv 1810.04805)"""

    component: ClassVar[str] = "head"

    width: int
    activation: Activation = "tanh"

    def leaves(self) -> Mapping[str, Leaf]:
        return {"dense": Linear(self.width, self.width, True)}

    def forward(self, t: Words[V], w: Scope, h: V) -> V:
        return t.activate(t.linear(t.pool(h, "first", "tokens"), w.dense), self.activation)  # B D


class ClassifierHead(Op):
    """linear( pool h ): B labels, or B T labels for a label on every token."""

    component: ClassVar[str] = "head"

    width: int
    labels: int
    pool: Literal["first", "last", "mean", "tokens"]
    bias: bool = True

    def leaves(self) -> Mapping[str, Leaf]:
        return {"out": Linear(self.width, self.labels, self.bias)}

    def forward(self, t: Words[V], w: Scope, h: V) -> V:
        return t.linear(h if self.pool == "tokens" else t.pool(h, self.pool, "tokens"), w.out)


class NoHead(Op):
    """The hidden states themselves: B T D."""

    component: ClassVar[str] = "head"

    width: int

    def forward(self, t: Words[V], w: Scope, h: V) -> V:
        return t.wanted(h)


Head = LmHead | PoolerHead | ClassifierHead | NoHead
