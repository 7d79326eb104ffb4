"""The pen that draws one stack: nodes upward along a stream, edges as it goes."""

from __future__ import annotations

from typing import Literal

from archspec.compiler.parameters import unchosen
from archspec.ops.attention import Attention
from archspec.ops.base import Op, tensors, walk
from archspec.ops.block import Residual, Stack
from archspec.ops.latent import LatentAttention
from archspec.ops.moe import Moe

from .facts import chips, describe, number, role, table
from .graph import Added, Beside, Edge, Item, Node

Level = Literal["block", "model"]
"""block: every sublayer, norm and residual. model: a layer is one box."""


class Pen:
    """Draws upward along one stream: what it draws next is fed by what it drew last."""

    def __init__(self, sizes: dict[str, int], level: Level, memory: str, stack: Stack) -> None:
        """`sizes`: parameters of each stored tensor by path. `memory`: the node whose output cross-attention reads."""
        self.sizes, self.level, self.memory = sizes, level, memory
        #: Do some layers of this stack turn queries and keys, so that it is worth saying which do not?
        self.turning = any(op.rope for op in _self_attention(stack))
        self.items: list[Item] = []
        self.edges: list[Edge] = []
        self.tail = ""
        #: Written on the next edge of the stream.
        self.label = ""
        #: How often what is drawn now stands in the model with weights of its own.
        self.times = 1

    def size(self, op: Op, path: str) -> int:
        """Stored parameters of an operation at a path."""
        return sum(self.sizes.get(t.path, 0) for t in tensors(op, path))

    def leaf_size(self, path: str) -> int:
        """Stored parameters of a linear or a table at a path."""
        return sum(self.sizes.get(f"{path}{suffix}", 0) for suffix in (".weight", ".bias"))

    def idle(self, op: Op, path: str) -> int:
        """Of these, those that one token does not use: none where the weights are those of an earlier layer."""
        mixtures = [(at, each) for at, each, _ in walk(op, path) if isinstance(each, Moe)]
        return sum(unchosen(each) for at, each in mixtures if self.size(each, at))

    def feed(self, node: Node, fan: int = 1) -> None:
        """An edge of the stream into a node."""
        if self.tail:
            self.edges.append(Edge(self.tail, node.id, label=self.label, fan=fan))
        self.tail, self.label = node.id, ""

    def on(self, node: Node, fan: int = 1) -> None:
        """A node on the stream."""
        self.feed(node, fan)
        self.items.append(node)

    def node(self, op: Op, path: str, *more: str) -> Node:
        title, facts = describe(op)
        if self.turning and _unplaced(op):
            more = ("no rope", *more)
        return Node(
            path.rstrip("."),
            role(op),
            title,
            (*facts, *more),
            self.size(op, path),
            self.times,
            idle=self.idle(op, path),
            chips=chips(op),
        )

    def box(self, op: Op, path: str, *more: str) -> None:
        """An operation on the stream, with the encoder's output where it reads it."""
        node = self.node(op, path, *more)
        self.on(node, 3 if isinstance(op, Attention | LatentAttention) else 1)
        if op.reads_memory:
            self.edges += [Edge(self.memory, node.id, "memory", of) for of in ("K", "V")]

    def beside(self, name: str, stack: Stack) -> None:
        """The tables that all layers of the stack look up, beside the stream and counted once."""
        for path, (op, table_name) in stack_tables(stack).items():
            title, facts = table(op)
            where, _, _ = path.rpartition(".")
            reader = f"{name}.{where}" if self.level == "block" else f"{name}.{'.'.join(path.split('.')[:2])}"
            size = sum(t.size for t in tensors(op) if t.path.split(".")[0] == table_name)
            node = Node(f"{name}.{path}", "embedding", title, facts, size)
            self.items.append(Beside(node, reader))
            self.edges.append(Edge(node.id, reader, "table"))

    def add(self, path: str, table: Node, source: str) -> None:
        """A sum on the stream with a table beside it, fed by an input of its own."""
        add = Node(f"{path}.sum", "sum")
        given = Node(f"{path}.input", "input", source)
        self.feed(add)
        self.edges += [Edge(given.id, table.id), Edge(table.id, add.id)]
        self.items.append(Added(add, table, given))

    def fork(self, path: str) -> str:
        self.on(Node(f"{path}.x", "fork"))
        return self.tail

    def join(self, path: str, fork: str, residual: Residual) -> None:
        """The residual's sum: branch_scale · what was drawn last + skip_scale · what left at the fork."""
        if residual.branch != 1.0:
            self.label = f"× {number(residual.branch)}"
        if residual.skip is None:
            return
        self.on(Node(f"{path}.sum", "sum"))
        label = "" if residual.skip == 1.0 else f"× {number(residual.skip)}"
        self.edges.append(Edge(fork, self.tail, "residual", label))


def stack_tables(stack: Stack) -> dict[str, tuple[Attention, str]]:
    """Path (from the stack, of the first layer that reads it) -> the operation and the name of what all layers share of it."""
    first: dict[str, str] = {}
    found: dict[str, tuple[Attention, str]] = {}
    for layer in dict.fromkeys(stack.layers):
        at = f"layers.{stack.layers.index(layer)}."
        for path, op in [(path, op) for path, op, _ in walk(layer) if isinstance(op, Attention)]:
            for shared in op.of_stack():
                if first.setdefault(f"{path}{shared}", at) == at:
                    found[f"{at}{path}{shared}"] = op, shared
    return found


def _unplaced(op: Op) -> bool:
    """An attention that is not told where its tokens stand."""
    if not isinstance(op, Attention | LatentAttention):
        return False
    return not (op.rope or op.scores.bias or (isinstance(op, Attention) and op.disentangled))


def _self_attention(stack: Stack) -> list[Attention | LatentAttention]:
    layers = dict.fromkeys(stack.layers)
    return [op for layer in layers for _, op, _ in walk(layer) if isinstance(op, Attention | LatentAttention)]
