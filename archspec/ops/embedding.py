"""From token ids to vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from .base import Children, Op
from .leaves import Leaf, Linear, Stream, Table
from .norms import Norm
from .record import Record
from .words import Counting, Scope, Sinusoid, V, Words


class LearnedPositions(Record):
    """table[position + offset]"""

    rows: int
    offset: int = 0
    count: Counting = "every"


class SinusoidalPositions(Record):
    """A fixed table, computed and not stored."""

    table: Sinusoid
    offset: int = 0
    count: Counting = "every"


class Embedding(Op):
    """norm( scale · tokens + position + token types ), the tokens or the whole sum widened where the table is narrower."""

    leaf_components: ClassVar[Mapping[str, str]] = {
        "tokens": "token_embedding",
        "positions": "position_embedding",
        "types": "token_type_embedding",
        "projection": "embedding_projection",
    }

    vocab: int
    width: int
    stream: Stream = "tokens"
    scale: float = 1.0
    position: LearnedPositions | SinusoidalPositions | None = None
    token_types: int = 0
    norm: Norm | None = None
    #: Width of the token table where it is not `width`; what the linear widens; has it a bias?
    narrow: tuple[int, Literal["tokens", "sum"], bool] | None = None
    dropout: float = 0.0

    @property
    def table_width(self) -> int:
        """Channels of a row of the token table."""
        return self.narrow[0] if self.narrow else self.width

    @property
    def sum_width(self) -> int:
        """Channels of the sum of tokens, positions and types."""
        return self.table_width if self.narrow and self.narrow[1] == "sum" else self.width

    def leaves(self) -> Mapping[str, Leaf]:
        leaves: dict[str, Leaf] = {"tokens": Table(self.vocab, self.table_width)}
        if isinstance(self.position, LearnedPositions):
            leaves["positions"] = Table(self.position.rows, self.sum_width)
        if self.token_types:
            leaves["types"] = Table(self.token_types, self.sum_width)
        if self.narrow:
            leaves["projection"] = Linear(self.narrow[0], self.width, self.narrow[2])
        return leaves

    def children(self) -> Children:
        return {"norm": self.norm} if self.norm else {}

    def forward(self, t: Words[V], w: Scope, ids: V) -> V:
        x = t.embedding(ids, w.tokens)  # B T D, or narrower
        if self.scale != 1.0:
            x = t.scale(x, self.scale)
        if self.narrow and self.narrow[1] == "tokens":
            x = t.linear(x, w.projection)
        if isinstance(self.position, LearnedPositions):
            at = t.positions(self.stream, self.position.count)
            x = t.add(x, t.embedding(at, w.positions, self.position.offset))
        if isinstance(self.position, SinusoidalPositions):
            at = t.positions(self.stream, self.position.count)
            x = t.sinusoid(x, at, self.position.table, self.position.offset)
        if self.token_types:
            x = t.add(x, t.embedding(t.token_types(self.stream), w.types))
        if self.norm:
            x = w.norm(t, x)
        x = t.dropout(x, self.dropout)
        return t.linear(x, w.projection) if self.narrow and self.narrow[1] == "sum" else x
