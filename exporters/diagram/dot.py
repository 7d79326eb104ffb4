"""DOT text. Positions are fixed (`layout=nop2`), so that `dot -Tsvg` and every other Graphviz draws the same picture."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from .facts import active, counted
from .geometry import CORNER, FACT, MARGIN, ROW, TITLE, Layout, Path, Point, Rect, Text
from .graph import Chip, Drawing, EdgeKind, Frame, Item, Node, Role, nodes_of
from .layout import place
from .text import SEPARATOR, width

FONT = "Helvetica,Arial,Liberation Sans,DejaVu Sans,sans-serif"
INK, SOFT, LINE = "#1F2933", "#5B6673", "#3E4C59"

#: Fill and stroke; the fills differ in lightness too, so that they can be told apart in print.
PALETTE: dict[Role, tuple[str, str]] = {
    "embedding": ("#FBE3E4", "#C27C80"),
    "attention": ("#FFE2B8", "#C48A34"),
    "ffn": ("#CFE5F7", "#5A8DB8"),
    "norm": ("#FAF7D2", "#B5AA4E"),
    "head": ("#E2DDF3", "#8878B8"),
    "layer": ("#E3EDE4", "#779A7D"),
}
#: Fill and stroke of what a token meets or not; no fill, no box.
CHIPS = {
    "chosen": ("#7FB2DA", "#3F7AAB"),
    "idle": ("#F3F8FC", "#A9C4DA"),
    "always": ("#BFE0C6", "#6FA37B"),
    "gap": ("", ""),
}
_WIDE, _BETWEEN = 34.0, 3.0
EDGES: dict[EdgeKind, str] = {
    "stream": f'color="{LINE}"',
    "residual": f'color="{LINE}"',
    "memory": 'color="#A9701B"',
    "table": 'color="#C27C80"',
    "tie": 'color="#8878B8", style="dashed", arrowhead="none"',
}
ARROW = 0.55
"""Arrow size; Graphviz draws arrows 10 points long at 1."""


def dot(drawing: Drawing) -> str:
    """The drawing in the DOT language."""
    layout = place(drawing)
    left, bottom, right, top = layout.bounds
    return "\n".join(
        [
            f"digraph {quoted(drawing.name)} {{",
            f'  graph [layout="nop2", bgcolor="white", pad="{MARGIN / 72:.3f}", outputorder="edgesfirst", tooltip=" ",'
            f' bb="{left:.1f},{bottom:.1f},{right:.1f},{top:.1f}", fontname="{FONT}"]',
            f'  node [shape="box", style="rounded,filled", fixedsize="shape", penwidth="0.9", margin="0",'
            f' fontname="{FONT}", fontsize="{TITLE:g}", fontcolor="{INK}", label=""]',
            f'  edge [penwidth="1.0", arrowsize="{ARROW}", color="{LINE}", tooltip=" "]',
            *(line for column in drawing.columns for line in _items(layout, column.items, 0)),
            *(_edge(path) for path in layout.paths),
            *(_text(i, t) for i, t in enumerate(layout.texts)),
            "}",
            "",
        ]
    )


def quoted(text: str) -> str:
    """A DOT string that reads as the text: no escapes of its own survive."""
    return '"' + printable(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def markup(text: str) -> str:
    """The text inside an HTML-like label."""
    return escape(printable(text), quote=True).replace("\\", "\\\\")  # DOT's own escapes work here too


def printable(text: str) -> str:
    """The text without what XML cannot hold."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text).replace("\n", " ")


# ------------------------------------------------------------------------------------------------------------- nodes


def _items(layout: Layout, items: Iterable[Item], depth: int) -> Iterable[str]:
    pad = "  " * (depth + 1)
    for item in items:
        match item:
            case Frame():
                yield f"{pad}subgraph {quoted('cluster ' + item.id)} {{"
                yield f"{pad}  graph [{_frame(layout.frames[item.id], item, depth)}]"
                yield from _items(layout, item.items, depth + 1)
                yield f"{pad}}}"
            case Node():
                yield pad + _node(layout, item)
            case _:
                for node in nodes_of((item,)):
                    yield pad + _node(layout, node)


def _frame(r: Rect, item: Frame, depth: int) -> str:
    style = "rounded,filled" if item.shared else "rounded,filled,dashed"
    fill = ("#F4F6F8", "#FFFFFF")[depth % 2]
    return (
        f'bb="{r.left:.1f},{r.bottom:.1f},{r.right:.1f},{r.top:.1f}", style="{style}", fillcolor="{fill}",'
        f' color="#94A0AC", penwidth="{1.6 if item.shared else 0.9}", tooltip={quoted(SEPARATOR.join(t for t in item.label if t))}'
    )


def _node(layout: Layout, node: Node) -> str:
    r = layout.nodes[node.id]
    place = f'pos="{r.x:.1f},{r.y:.1f}", width="{r.w / 72:.4f}", height="{r.h / 72:.4f}"'
    match node.role:
        case "fork":
            shape = f'shape="point", width="0.045", height="0.045", style="filled", fillcolor="{LINE}", color="{LINE}"'
            return f'{quoted(node.id)} [{shape}, pos="{r.x:.1f},{r.y:.1f}", tooltip=" "]'
        case "sum":
            look = f'shape="circle", fillcolor="white", color="{LINE}", fontsize="14", label="+", tooltip="sum"'
        case "input" | "output":
            facts = "".join(f" {font(f, FACT, SOFT)}" for f in node.facts)
            bold = node.facts or node.role == "output"
            title = f"<B>{markup(node.title)}</B>" if bold else font(node.title, FACT, SOFT)
            look = f'style="", penwidth="0", label=<{title}{facts}>, tooltip={quoted(node.title)}'
        case role:
            fill, stroke = PALETTE[role]
            look = f'fillcolor="{fill}", color="{stroke}", tooltip={quoted(_tooltip(node))}, label=<{_label(layout, node)}>'
    return f"{quoted(node.id)} [{place}, {look}]"


def _label(layout: Layout, node: Node) -> str:
    """Title left and parameters right on the first line, facts below."""
    facts = layout.facts[node.id]
    inner = layout.nodes[node.id].w - 16.0
    count = counted(node)
    beside = f" {font(SEPARATOR.join(facts), FACT, SOFT)}" if node.role == "norm" and facts else ""
    title = f"<B>{markup(node.title)}</B>{beside}"
    rows = [_two(inner, title, font(count, FACT + 0.5, INK), width(count, FACT + 0.5))]
    if node.role != "norm":
        rows += [font(row, FACT, SOFT) for row in facts]
    if node.idle:
        rows[1] = _two(inner, rows[1], font(active(node), FACT, SOFT), width(active(node), FACT))
    heights = [0.0, *(ROW for _ in rows[1:])]
    if node.chips:
        rows, heights = [*rows, "", _chips(node.chips, inner)], [*heights, 4.0, 0.0]
    cells = (
        f'<TR><TD ALIGN="LEFT" HEIGHT="{height:g}">{row}</TD></TR>' for row, height in zip(rows, heights, strict=True)
    )
    return f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="0.5">{"".join(cells)}</TABLE>'


def _two(inner: float, left: str, right: str, wide: float) -> str:
    """A row of a box: something at its left end, something of a width at its right."""
    cells = f'<TD ALIGN="LEFT" WIDTH="{inner - wide - 4.0:.0f}">{left}</TD><TD ALIGN="RIGHT" WIDTH="{wide + 4.0:.0f}">{right}</TD>'
    return f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="0"><TR>{cells}</TR></TABLE>'


def _chips(chips: tuple[Chip, ...], inner: float) -> str:
    """Small boxes from end to end of a box, equally wide but for what is always met."""
    always = sum(_WIDE for _, kind in chips if kind == "always")
    each = (inner - always + _BETWEEN) / sum(kind != "always" for _, kind in chips) - _BETWEEN
    cells = []
    for text, kind in chips:
        fill, stroke = CHIPS[kind]
        look = f'BORDER="1" STYLE="ROUNDED" BGCOLOR="{fill}" COLOR="{stroke}"' if fill else ""
        wide = _WIDE - _BETWEEN if kind == "always" else each - 0.5
        cells.append(f'<TD WIDTH="{wide:.0f}" HEIGHT="14" {look}>{font(text, FACT - 2.0, INK)}</TD>')
    between = f'<TD WIDTH="{_BETWEEN:.0f}"></TD>'
    return f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="0"><TR>{between.join(cells)}</TR></TABLE>'


def font(text: str, size: float, color: str) -> str:
    """Text of a size and colour in an HTML-like label; nothing where there is none."""
    return f'<FONT POINT-SIZE="{size:g}" COLOR="{color}">{markup(text)}</FONT>' if text else ""


def _tooltip(node: Node) -> str:
    count = f"{node.parameters:,} parameters" if node.parameters else "no parameters of its own"
    used = f", {node.parameters - node.idle:,} of them active" if node.idle else ""
    times = f", {node.times} times" if node.times > 1 else ""
    return f"{node.id}: {count}{used}{times}"


# ------------------------------------------------------------------------------------------------------ edges and text


def _edge(path: Path) -> str:
    edge = path.edge
    arrow = edge.kind != "tie"
    look = EDGES[edge.kind]
    if edge.target.endswith(".x"):
        arrow, look = False, look + ', arrowhead="none"'
    said = quoted(" ".join(t for t in (edge.kind, edge.label) if t))
    return f'  {quoted(edge.source)} -> {quoted(edge.target)} [pos="{_spline(path.points, arrow)}", {look}, tooltip={said}]'


def _spline(points: tuple[Point, ...], arrow: bool) -> str:
    """A polyline with rounded corners as Bézier pieces; with an arrow, the line stops where its head begins."""
    *_, before, end = points
    if arrow:
        points = (*points[:-1], _toward(end, before, 10.0 * ARROW))
    pieces = [points[0]]
    for a, b, c in zip(points, points[1:], points[2:], strict=False):
        r = min(CORNER, _far(a, b) / 2, _far(b, c) / 2)
        enter, leave = _toward(b, a, r), _toward(b, c, r)
        pieces += [pieces[-1], enter, enter, _toward(b, enter, r * 0.45), _toward(b, leave, r * 0.45), leave]
    pieces += [pieces[-1], points[-1], points[-1]]
    head = f"e,{end[0]:.1f},{end[1]:.1f} " if arrow else ""
    return head + " ".join(f"{x:.1f},{y:.1f}" for x, y in pieces)


def _far(a: Point, b: Point) -> float:
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


def _toward(a: Point, b: Point, by: float) -> Point:
    """The point `by` from a on the way to b."""
    far = _far(a, b) or 1.0
    return a[0] + (b[0] - a[0]) * by / far, a[1] + (b[1] - a[1]) * by / far


def _text(i: int, t: Text) -> str:
    align = {-1: "LEFT", 0: "CENTER", 1: "RIGHT"}[t.align]
    said = f"<B>{markup(t.text)}</B>" if t.bold else markup(t.text)
    w = width(t.text, t.size, t.bold) + 2.0
    x = t.x - t.align * w / 2
    cell = f'<TD ALIGN="{align}" WIDTH="{w:.0f}">{said}</TD>'
    table = f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="0"><TR>{cell}</TR></TABLE>'
    place = f'pos="{x:.1f},{t.y:.1f}", width="{w / 72:.4f}", height="{t.size / 60:.4f}"'
    look = f'fontsize="{t.size:g}", fontcolor="{SOFT if t.soft else INK}", tooltip=" "'
    return f'  "text {i}" [shape="plaintext", style="", {place}, {look}, label=<{table}>]'
