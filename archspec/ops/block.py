"""Blocks and stacks: the wiring around the sublayers.

Every sublayer is one equation, y = outer( skip · x + branch_scale · branch( f( input(x) ) ) ), so norm placement and
residuals are never special cases. The wiring is a record and not an operation: its norms are named in the block's own scope,
`decoder.layers.3.attention_input_norm` beside `decoder.layers.3.attention`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from .base import Children, Op, stack_tensors
from .embedding import Embedding
from .leaves import Leaf, Vector
from .norms import Norm
from .record import Record
from .words import Scope, V, Words


class Residual(Record):
    """skip · x + branch · f, with dropout of f while training. A skip of None: no residual, f alone."""

    skip: float | None = 1.0
    branch: float = 1.0
    dropout: float = 0.0

    def join(self, t: Words[V], x: V, f: V) -> V:
        f = t.dropout(f, self.dropout)
        if self.branch != 1.0:
            f = t.scale(f, self.branch)
        if self.skip is None:
            return f
        return t.add(x if self.skip == 1.0 else t.scale(x, self.skip), f)


class ResidualGate(Op):
    """sqrt(max(1 - b², floor)) · x + b · f, b = sigmoid(gate / temperature): unit variances stay unit. Dropout as in `Residual`."""

    component: ClassVar[str] = "residual"

    width: int
    temperature: float = 1.0
    floor: float = 0.0
    dropout: float = 0.0

    def leaves(self) -> Mapping[str, Leaf]:
        return {"gate": Vector((self.width,), 0.0)}

    def forward(self, t: Words[V], w: Scope, x: V, f: V) -> V:
        return t.blend(x, t.dropout(f, self.dropout), w.gate, self.temperature, self.floor)


class Sublayer(Record):
    """A function, the norms around it (site -> norm; sites input, branch, outer) and the residual that joins it."""

    name: str
    f: Op
    norms: tuple[tuple[str, Norm], ...] = ()
    residual: Residual = Residual()
    #: Joins the two instead of `residual`.
    gate: ResidualGate | None = None

    def children(self) -> Mapping[str, Op]:
        gate = {f"{self.name}_residual": self.gate} if self.gate else {}
        return {**{f"{self.name}_{site}_norm": norm for site, norm in self.norms}, self.name: self.f, **gate}

    def normed(self, t: Words[V], w: Scope, site: str, x: V) -> V:
        if all(site != each for each, _ in self.norms):
            return x
        out: V = getattr(w, f"{self.name}_{site}_norm")(t, x)
        return out

    def branch(self, t: Words[V], w: Scope, x: V, memory: V | None) -> V:
        """branch( f( input(x) ) )"""
        f = getattr(w, self.name)
        h = self.normed(t, w, "input", x)
        h = f(t, h, memory) if self.f.reads_memory else f(t, h)
        return self.normed(t, w, "branch", h)

    def apply(self, t: Words[V], w: Scope, x: V, memory: V | None) -> V:
        f = self.branch(t, w, x, memory)
        y = getattr(w, f"{self.name}_residual")(t, x, f) if self.gate else self.residual.join(t, x, f)
        return self.normed(t, w, "outer", y)


class Block(Op):
    """Sublayers one after the other."""

    sublayers: tuple[Sublayer, ...]

    def children(self) -> Children:
        return {name: child for s in self.sublayers for name, child in s.children().items()}

    def forward(self, t: Words[V], w: Scope, x: V, memory: V | None = None) -> V:
        for sublayer in self.sublayers:
            x = sublayer.apply(t, w, x, memory)
        return x


class ParallelBlock(Op):
    """Sublayers side by side: y = skip · x + branch_scale · (f1 + f2), all reading the same x, through one norm or one each."""

    sublayers: tuple[Sublayer, ...]
    #: The one norm that all sublayers share.
    norm: Norm | None = None

    def children(self) -> Children:
        shared = {"input_norm": self.norm} if self.norm else {}
        return {**shared, **{name: child for s in self.sublayers for name, child in s.children().items()}}

    def forward(self, t: Words[V], w: Scope, x: V, memory: V | None = None) -> V:
        h = w.input_norm(t, x) if self.norm else x
        first, *rest = self.sublayers
        y = first.residual.join(t, x, first.branch(t, w, h, memory))
        for s in rest:
            y = Residual(1.0, s.residual.branch, s.residual.dropout).join(t, y, s.branch(t, w, h, memory))
        return y


class Stack(Op):
    """Embedding, layers, final norm: ids to hidden states."""

    embedding: Embedding
    layers: tuple[Op, ...]
    #: owners[i] is the layer whose weights layer i uses; i itself unless layers share.
    owners: tuple[int, ...]
    final_norm: Norm | None = None

    def children(self) -> Children:
        norm = {"final_norm": self.final_norm} if self.final_norm else {}
        return {"embedding": self.embedding, "layers": self.layers, **norm}

    def ties(self) -> dict[str, str]:
        """Path of a tensor that all layers share -> the path of the first layer's that has it. Paths from this stack."""
        first: dict[str, str] = {}
        tied: dict[str, str] = {}
        names: dict[int, list[str]] = {}
        for i, layer in enumerate(self.layers):
            if id(layer) not in names:
                names[id(layer)] = [t.path for t in stack_tensors(layer)]
            for name in names[id(layer)]:
                path = f"layers.{i}.{name}"
                owner = first.setdefault(name, path)
                if owner != path:
                    tied[path] = owner
        return tied

    def forward(self, t: Words[V], w: Scope, ids: V, memory: V | None = None) -> V:
        x = w.embedding(t, ids)  # B T D
        x = t.fold(w.layers, x) if memory is None else t.fold(w.layers, x, memory)
        return w.final_norm(t, x) if self.final_norm else x
