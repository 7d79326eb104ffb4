"""The drawing: nodes, edges, and the order in which they stand on each stack's stream. No sizes, no colours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Role = Literal["input", "embedding", "norm", "attention", "ffn", "layer", "head", "output", "sum", "fork"]
"""What a node is. `sum` is ⊕; `fork` is where a residual leaves the stream."""

EdgeKind = Literal["stream", "residual", "memory", "table", "tie"]
"""stream: what flows up. residual: the skip connection. memory: the encoder's output. table: what all layers look up. tie: two
names of one tensor."""

Chip = tuple[str, Literal["chosen", "idle", "always", "gap"]]
"""A small box inside a box, and whether a token meets it."""


@dataclass(frozen=True)
class Node:
    """A box, or one of the small marks. `id` is the operation's path in the model."""

    id: str
    role: Role
    title: str = ""
    facts: tuple[str, ...] = ()
    #: Parameters of the one instance that is drawn.
    parameters: int = 0
    #: How many such instances with weights of their own there are.
    times: int = 1
    #: In place of, or beside, the parameters: `tied`, `shared`.
    note: str = ""
    #: Of the parameters, those that one token does not use.
    idle: int = 0
    #: Drawn in a row inside the box.
    chips: tuple[Chip, ...] = ()


@dataclass(frozen=True)
class Edge:
    """From one node to another, by id. `fan`: drawn as so many arrows (q, k and v of one x)."""

    source: str
    target: str
    kind: EdgeKind = "stream"
    label: str = ""
    fan: int = 1


@dataclass(frozen=True)
class Added:
    """A sum on the stream with what is added beside it, and the input of that."""

    sum: Node
    table: Node
    input: Node


@dataclass(frozen=True)
class Beside:
    """A table beside the stream, which layers further up read; `reader` is the first of them."""

    table: Node
    reader: str


@dataclass(frozen=True)
class Parallel:
    """Branches side by side, each bottom to top."""

    branches: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True)
class Frame:
    """One layer or one row of layers, `times` times; `label` is written beside it."""

    id: str
    times: int
    shared: bool
    label: tuple[str, ...]
    items: tuple[Item, ...]


Item = Node | Added | Beside | Parallel | Frame


@dataclass(frozen=True)
class Column:
    """One stack from its input to its output, bottom to top. `side`: where its residuals run, -1 left, 1 right."""

    name: str
    side: Literal[-1, 1]
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Drawing:
    """The whole picture, under the model's name and a subtitle in rows."""

    name: str
    subtitle: tuple[str, ...]
    columns: tuple[Column, ...]
    edges: tuple[Edge, ...]

    def nodes(self) -> Iterator[Node]:
        """Every node once, in reading order."""
        for column in self.columns:
            yield from nodes_of(column.items)

    def frames(self) -> Iterator[Frame]:
        """Every frame, the outer ones first."""
        for column in self.columns:
            yield from _frames(column.items)


def nodes_of(items: tuple[Item, ...]) -> Iterator[Node]:
    """The nodes of items, bottom to top."""
    for item in items:
        match item:
            case Node():
                yield item
            case Added():
                yield from (item.sum, item.table, item.input)
            case Beside():
                yield item.table
            case Parallel():
                yield from (node for branch in item.branches for node in branch)
            case Frame():
                yield from nodes_of(item.items)


def _frames(items: tuple[Item, ...]) -> Iterator[Frame]:
    for item in items:
        if isinstance(item, Frame):
            yield item
            yield from _frames(item.items)
