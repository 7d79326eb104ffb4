"""Heads: what is read off the last layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from .base import Children, Op
from .leaves import Leaf, Linear
from .norms import Norm
from .words import Activation, Scope, V, Words

Dense = tuple[Activation, bool]
"""Activation and bias of a dense layer."""


def dense(t: Words[V], w: Scope, h: V, activation: Activation, norm: Norm | None) -> V:
    """norm( activation( dense h ) )"""
    h = t.activate(t.linear(h, w.dense), activation)
    out: V = w.norm(t, h) if norm else h
    return out


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
    transform: Dense | None = None
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
            h = dense(t, w, h, self.transform[0], self.norm)
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
        return dense(t, w, t.pool(h, "first", "tokens"), self.activation, None)  # B D


class ClassifierHead(Op):
    """linear( t( pool h ) ), t as in `LmHead`: B labels, or B T labels for a label on every token."""

    component: ClassVar[str] = "head"

    width: int
    labels: int
    pool: Literal["first", "last", "mean", "tokens"]
    bias: bool = True
    transform: Dense | None = None
    norm: Norm | None = None

    def leaves(self) -> Mapping[str, Leaf]:
        before = {"dense": Linear(self.width, self.width, self.transform[1])} if self.transform else {}
        return {**before, "out": Linear(self.width, self.labels, self.bias)}

    def children(self) -> Children:
        return {"norm": self.norm} if self.norm else {}

    def forward(self, t: Words[V], w: Scope, h: V) -> V:
        h = h if self.pool == "tokens" else t.pool(h, self.pool, "tokens")
        if self.transform:
            h = dense(t, w, h, self.transform[0], self.norm)
        return t.linear(h, w.out)


class NoHead(Op):
    """The hidden states themselves: B T D."""

    component: ClassVar[str] = "head"

    width: int

    def forward(self, t: Words[V], w: Scope, h: V) -> V:
        return t.wanted(h)


Head = LmHead | PoolerHead | ClassifierHead | NoHead
