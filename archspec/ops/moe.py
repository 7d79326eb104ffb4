"""Mixtures of experts: a router gives each token a few of many feed-forward networks    (Shazeer et al. 2017, arXiv 1701.06538)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from .base import Children, Op
from .ffn import Gated, Mlp
from .leaves import Leaf, Linear, Vector
from .norms import Norm
from .words import Routing, Scope, V, Words


class Moe(Op):
    """Σ over the chosen e of weight_e · expert_e(x), plus shared(x).

    The expert is an ordinary `Mlp` or `Gated` whose leaves are stacked over the experts. With `latent`, the experts work on a
    narrower x: up( Σ weight_e · expert_e( norm( down x ) ) ).
    """

    component: ClassVar[str] = "ffn"

    width: int
    experts: int
    expert: Mlp | Gated
    routing: Routing
    router_bias: bool = False
    selection_bias: bool = False
    weigh_input: bool = False
    shared: Mlp | Gated | None = None
    shared_gate: bool = False
    #: Width of the experts' x where it is not `width`.
    latent: int | None = None
    latent_norm: Norm | None = None
    #: Of each expert's output, before it is weighted: one for all experts.
    expert_norm: Norm | None = None
    #: Of the router's x.
    router_scale: float = 1.0

    def leaves(self) -> Mapping[str, Leaf]:
        leaves: dict[str, Leaf] = {"router": Linear(self.width, self.experts, self.router_bias)}
        if self.selection_bias:
            leaves["selection_bias"] = Vector((self.experts,), 0.0, trained=False)
        if self.shared_gate:
            leaves["shared_gate"] = Linear(self.width, 1)
        if self.latent:
            leaves["latent_down"] = Linear(self.width, self.latent)
            leaves["latent_up"] = Linear(self.latent, self.width, residual=True)
        return leaves

    def children(self) -> Children:
        children = {
            "expert": self.expert, "shared": self.shared, "latent_norm": self.latent_norm, "expert_norm": self.expert_norm,
        }  # fmt: skip
        return {name: child for name, child in children.items() if child}

    def expertise(self, t: Words[V], w: Scope, rows: V) -> V:
        """An expert's work on its rows."""
        y: V = w.expert(t, rows)
        return w.expert_norm(t, y) if self.expert_norm else y

    def forward(self, t: Words[V], w: Scope, x: V) -> V:
        bias = w.selection_bias if self.selection_bias else None
        scaled = x if self.router_scale == 1.0 else t.scale(x, self.router_scale)
        weights, chosen = t.route(scaled, w.router, bias, self.routing)  # B T k
        h = t.linear(x, w.latent_down) if self.latent else x
        if self.latent_norm:
            h = w.latent_norm(t, h)
        y = t.experts(h, weights, chosen, self.weigh_input, lambda rows: self.expertise(t, w, rows))
        if self.latent:
            y = t.linear(y, w.latent_up)
        if not self.shared:
            return y
        s = w.shared(t, x)
        if self.shared_gate:
            s = t.mul(s, t.activate(t.linear(x, w.shared_gate), "sigmoid"))
        return t.add(y, s)
