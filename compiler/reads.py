"""Bytes of weights that a call reads: one more reading of the bodies, in which a word is the leaves that it is given.

Look-ups read a row a token, which is nothing. Of a mixture the chosen experts are read, every expert being as likely as another.
What is shared by layers is read as often as it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from archspec.ops.bind import Bound, LeafRef
from archspec.ops.leaves import Linear
from archspec.ops.model import Model

from .flops import B, Counter, M, Shape, T
from .precision import Storage


def bytes_read(model: Model, storage: Storage, tokens: int, *, first: bool) -> int:
    """Bytes of weights, as stored, that a call reads.

    tokens: that are new, those of all sequences together. first: is it the first call of a request, which reads the encoder and
    computes what is computed once, or a step after it?
    """
    reader, scope, memory = _Reader(model, storage, tokens, first), Bound(model), None
    if model.form == "encoder_decoder":
        with reader.silent(not first):
            memory = model.encode(reader, scope, (B, M))
    model.forward(reader, scope, (B, T), memory)
    return round(reader.read)


class _Reader(Counter):
    """The words, on shapes, adding up what is read."""

    def __init__(self, model: Model, storage: Storage, tokens: int, first: bool) -> None:
        super().__init__()
        self.ties, self.tokens, self.first = model.ties, tokens, first
        self.sizes = {t.path: storage.bytes_of(t) for t in model.tensors()}
        #: Experts that a token chooses, where the body of one is read.
        self.chosen = 0
        self.read, self.heard = 0.0, True

    @contextmanager
    def silent(self, so: bool = True) -> Iterator[None]:
        """What is read inside does not count."""
        before, self.heard = self.heard, self.heard and not so
        yield
        self.heard = before

    def used(self, *leaves: LeafRef | None) -> None:
        for w in leaves if self.heard else ():
            if w is None:
                continue
            experts, share = w.leaf.experts if isinstance(w.leaf, Linear) else None, 1.0
            if experts:
                share = 1.0 - (1.0 - self.chosen / experts) ** self.tokens
            for suffix in w.leaf.tensors():
                path = f"{w.path}{suffix}"
                self.read += share * self.sizes[self.ties.get(path, path)]

    def once(self, slots: Sequence[Any], make: Callable[[], Sequence[Shape]]) -> Sequence[Shape]:
        with self.silent(not self.first):
            return make()

    def stepping(self, most: int | None, step: Callable[[], Shape], whole: Callable[[], Shape]) -> Shape:
        return whole() if self.first else step()

    def experts(self, x: Shape, weights: Shape, chosen: Shape, on_input: bool, body: Callable[[Shape], Shape]) -> Shape:
        assert isinstance(chosen[-1], int)
        self.chosen = chosen[-1]
        return super().experts(x, weights, chosen, on_input, body)

    def fold(self, layers: Sequence[Bound], x: Shape, *shared: Shape) -> Shape:
        for layer in layers:  # each has weights of its own, and a precision of its own
            x = layer(self, x, *shared)
        return x
