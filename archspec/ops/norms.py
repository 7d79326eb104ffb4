"""Norms. A weight of `1+w` is stored as w and used as 1 + w; with `heads`, there is a weight for each head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from .base import Op
from .leaves import Leaf, Vector
from .words import Scope, V, Words


class _Weighted(Op):
    component: ClassVar[str] = "norm"

    width: int
    eps: float
    weight: Literal["w", "1+w", "none"] = "w"
    heads: int | None = None

    @property
    def shift(self) -> float:
        return 1.0 if self.weight == "1+w" else 0.0

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.width,) if self.heads is None else (self.heads, 1, self.width)

    def leaves(self) -> Mapping[str, Leaf]:
        return {} if self.weight == "none" else {"weight": Vector(self.shape, 1.0 - self.shift)}


class RMSNorm(_Weighted):
    """x / sqrt(mean x² + eps) · weight    (arXiv 1910.07467), or the same of x · weight."""

    weight_first: bool = False

    def forward(self, t: Words[V], w: Scope, x: V) -> V:
        weight = None if self.weight == "none" else w.weight
        if self.weight_first and weight is not None:
            return t.rms_norm(t.weigh(x, weight, self.shift), None, self.eps, 0.0)
        return t.rms_norm(x, weight, self.eps, self.shift)


class LayerNorm(_Weighted):
    """(x - mean x) / sqrt(var x + eps) · weight + bias    (arXiv 1607.06450)"""

    bias: bool = True
    eps_outside: bool = False

    def leaves(self) -> Mapping[str, Leaf]:
        weight = super().leaves()
        return {**weight, "bias": Vector(self.shape, 0.0)} if self.bias else weight

    def forward(self, t: Words[V], w: Scope, x: V) -> V:
        weight = None if self.weight == "none" else w.weight
        bias = w.bias if self.bias else None
        return t.layer_norm(x, weight, bias, self.eps, self.shift, self.eps_outside)


class L2Norm(Op):
    """x / max(‖x‖, eps)"""

    component: ClassVar[str] = "norm"

    width: int
    eps: float = 1e-12

    def forward(self, t: Words[V], w: Scope, x: V) -> V:
        return t.l2_norm(x, self.eps)


Norm = RMSNorm | LayerNorm | L2Norm
