"""Mermaid text: a flowchart that pages such as GitHub's draw themselves."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import count

from .dot import PALETTE, printable
from .facts import active, counted
from .graph import Drawing, Edge, Frame, Item, Node, nodes_of
from .text import SEPARATOR

ARROWS = {"stream": "-->", "residual": "-.->", "memory": "==>", "table": "-->", "tie": "-.-"}


def mermaid(drawing: Drawing) -> str:
    """The drawing as a Mermaid flowchart, from the bottom up. A residual begins at the node that its stream came from."""
    names = {node.id: f"n{i}" for i, node in enumerate(drawing.nodes())}
    frames = count()
    source = {e.target: e.source for e in drawing.edges if e.kind == "stream"}
    forks = {node.id for node in drawing.nodes() if node.role == "fork"}
    title = SEPARATOR.join((drawing.name, *drawing.subtitle))
    out = ["---", f"title: {json.dumps(printable(title), ensure_ascii=False)}", "---", "flowchart BT"]
    for column in drawing.columns:
        out += _items(column.items, names, frames, "  ")
    for edge in drawing.edges:
        if edge.target not in forks:
            begin = edge.source
            while begin in forks:
                begin = source[begin]
            out.append(f"  {names[begin]} {_arrow(edge)} {names[edge.target]}")
    for role, (fill, stroke) in PALETTE.items():
        members = [names[n.id] for n in drawing.nodes() if n.role == role]
        if members:
            out.append(f"  classDef {role} fill:{fill},stroke:{stroke},color:#1F2933")
            out.append(f"  class {','.join(members)} {role}")
    if boxes := [f"f{i}" for i, _ in enumerate(drawing.frames())]:
        out.append("  classDef frame fill:#F4F6F8,stroke:#94A0AC,color:#1F2933,stroke-dasharray:4 3")
        out.append(f"  class {','.join(boxes)} frame")
    return "\n".join(out) + "\n"


def plain(text: str) -> str:
    """The text inside quotes: quotes, markup and Mermaid's own escapes as character codes."""
    return "".join(f"#{ord(c)};" if c in "\"'<>&#`\\{}[]" else c for c in printable(text))


def _arrow(edge: Edge) -> str:
    return ARROWS[edge.kind] + (f'|"{plain(edge.label)}"|' if edge.label else "")


def _items(items: Iterable[Item], names: dict[str, str], frames: Iterable[int], pad: str) -> Iterable[str]:
    for item in items:
        if isinstance(item, Frame):
            label = SEPARATOR.join(t for t in item.label if t) or "layer"
            yield f'{pad}subgraph f{next(iter(frames))}["{plain(label)}"]'
            yield f"{pad}  direction BT"
            yield from _items(item.items, names, frames, pad + "  ")
            yield f"{pad}end"
        else:
            yield from (pad + _node(node, names[node.id]) for node in nodes_of((item,)) if node.role != "fork")


def _node(node: Node, name: str) -> str:
    if node.role == "sum":
        return f'{name}(("+"))'
    facts = SEPARATOR.join(node.facts)
    count = f"{counted(node)}{' parameters' if node.parameters else ''}"
    params = SEPARATOR.join(t for t in (count, active(node)) if t)
    text = "<br/>".join(t for t in (f"<b>{plain(node.title)}</b>", plain(facts), plain(params)) if t)
    return f'{name}(["{text}"])' if node.role in ("input", "output") else f'{name}["{text}"]'
