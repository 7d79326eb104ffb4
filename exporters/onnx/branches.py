"""Choices between two ways of computing one thing: only the one that is chosen is computed.

The words write both into the graph, and a `Where` between them. That is the graph's meaning, and what passes see; in the end
each becomes an `If`, with what nothing but one side reads inside its branch.
"""

from __future__ import annotations

import onnx_ir as ir

from .graph import Builder


def branch(g: Builder) -> None:
    """Make every choice of a graph, which is pruned, an `If`."""
    for chosen in g.choices:
        node = chosen.producer()
        assert node is not None
        if node.graph is None:
            continue  # nobody asked
        condition, then, other = node.inputs
        assert then is not None
        assert other is not None
        sides = {"then_branch": then, "else_branch": other}
        bodies = {name: _body(g, node, side, f"{node.name}.{name}") for name, side in sides.items()}
        with g.before(node):
            g.swap(chosen, g.op("If", condition, **bodies))
        g.graph.remove(node, safe=True)


def _body(g: Builder, choice: ir.Node, side: ir.Value, name: str) -> ir.Graph:
    """What gives one side of a choice and nothing else, taken out of the graph."""
    nodes = _own(side, choice)
    g.graph.remove(nodes)
    side.type = ir.TensorType(g.dtype)
    return ir.Graph([], [side], nodes=nodes, name=name)


def _own(side: ir.Value, choice: ir.Node) -> list[ir.Node]:
    """The nodes that nothing reads but one side of a choice, in order."""
    own: list[ir.Node] = []
    inside, asked = {choice}, [side]
    while asked:
        node = asked.pop().producer()
        if node is None or node in inside:
            continue
        users = {user for out in node.outputs for user, _ in out.uses()}
        if users <= inside and not any(out.is_graph_output() for out in node.outputs):
            inside.add(node)
            own.append(node)
            asked += [value for value in node.inputs if value is not None]
    return own[::-1]
