"""The whole model: one stack and a head, or an encoder beside a decoder."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Literal

from .base import Children, Op, Tensor, tensors, walk
from .block import Stack
from .head import Head, LmHead
from .rotary import Dynamic, LongRope
from .words import Scope, V, Words

Form = Literal["decoder", "encoder", "encoder_decoder"]


class Model(Op):
    """Ids in; logits, labels or hidden states out."""

    name: str
    dtype: str
    head: Head
    encoder: Stack | None = None
    decoder: Stack | None = None
    #: Two stacks, one token table.
    share_tokens: bool = False

    @property
    def form(self) -> Form:
        """Which stacks there are."""
        if self.encoder and self.decoder:
            return "encoder_decoder"
        return "decoder" if self.decoder else "encoder"

    @property
    def main(self) -> tuple[str, Stack]:
        """The name of the stack that carries the head, and the stack."""
        if self.decoder:
            return "decoder", self.decoder
        assert self.encoder is not None
        return "encoder", self.encoder

    def stacks(self) -> dict[str, Stack]:
        """Name -> stack, in the order in which they run."""
        return {name: s for name, s in (("encoder", self.encoder), ("decoder", self.decoder)) if s}

    def children(self) -> Children:
        return {**self.stacks(), "head": self.head}

    @cached_property
    def ties(self) -> dict[str, str]:
        """Path of a tensor that is another one -> path of the one that is stored."""
        name, _ = self.main
        tied: dict[str, str] = {}
        if isinstance(self.head, LmHead) and self.head.tied:
            tied["head.out.weight"] = f"{name}.embedding.tokens.weight"
        if self.share_tokens:
            tied["encoder.embedding.tokens.weight"] = "decoder.embedding.tokens.weight"
        for stack_name, stack in self.stacks().items():
            tied |= {f"{stack_name}.{path}": f"{stack_name}.{owner}" for path, owner in stack.ties().items()}
            for i, owner in enumerate(stack.owners):
                if owner != i:
                    at = f"{stack_name}.layers.{owner}."
                    names = [t.path.removeprefix(at) for t in tensors(stack.layers[owner], at)]
                    tied |= {f"{stack_name}.layers.{i}.{n}": f"{at}{n}" for n in names}
        return tied

    def tensors(self) -> Iterator[Tensor]:
        """Every stored tensor once, in order: what a weights file holds."""
        return (t for t in tensors(self) if t.path not in self.ties)

    @cached_property
    def grows(self) -> bool:
        """Do angles depend on how long a text is so far? Then a text read in pieces is another one than as a whole."""
        ropes = (getattr(op, "rope", None) for _, op, _ in walk(self))
        return any(rope is not None and isinstance(rope.scaling, Dynamic | LongRope) for rope in ropes)

    def encode(self, t: Words[V], w: Scope, source: V) -> V:
        """B M -> B M D: the encoder's output, which the decoder reads."""
        memory: V = w.encoder(t, source)
        return memory

    def forward(self, t: Words[V], w: Scope, ids: V, memory: V | None = None) -> V:
        """B T (and B M D beside an encoder) -> what the head gives."""
        name, _ = self.main
        stack = getattr(w, name)
        h = stack(t, ids) if self.form != "encoder_decoder" else stack(t, ids, memory)
        out: V = w.head(t, h)
        return out
