"""Where everything stands: streams are straight lines, boxes of a column are equally wide, residuals run in one lane beside
the stream. Computed here rather than by Graphviz, which cannot keep a stream straight.
"""

from __future__ import annotations

from collections.abc import Sequence

from .facts import active
from .geometry import (
    BOX,
    CHIP,
    FACT,
    HALF,
    INPUT,
    LANE,
    MARK,
    PAD,
    ROW,
    SIDE,
    SMALL,
    TABLE,
    TIMES,
    TITLE,
    Layout,
    Rect,
    Text,
    extent,
)  # fmt: skip
from .graph import Added, Beside, Column, Drawing, Frame, Item, Node, Parallel, nodes_of
from .route import Router
from .text import lines, width

#: What the figures are that stand in boxes.
LEGEND = "at the right in a box: its parameters"
#: Points for a line of what is said beside a frame.
BESIDE = 110.0


def place(drawing: Drawing) -> Layout:
    """Columns side by side from one base line, then edges between what stands."""
    out = Layout(drawing)
    x = 0.0
    for i, column in enumerate(drawing.columns):
        if i:
            _, _, right, _ = out.bounds
            x = right + _lane(drawing) + _half(column.items) + PAD * _depth(column.items)
        _Column(out, column, x).stack(column.items, 0.0)
    Router(out).route()
    _title(out)
    return out


def _lane(drawing: Drawing) -> float:
    """Room between two stacks: for the encoder's output, and for the mark of a shared table."""
    return 64.0 if any(e.kind == "memory" for e in drawing.edges) else 40.0


def _depth(items: Sequence[Item]) -> int:
    """How many frames stand in one another."""
    return max((1 + _depth(i.items) for i in items if isinstance(i, Frame)), default=0)


def _around(items: Sequence[Item], node: str) -> Sequence[Item]:
    """The items of the innermost frame that holds a node."""
    for item in items:
        if isinstance(item, Frame) and any(n.id == node for n in nodes_of((item,))):
            return _around(item.items, node)
    return items


def _half(items: Sequence[Item]) -> float:
    """Half the width of what stands on the stream."""
    widths = [BOX / 2]
    for item in items:
        if isinstance(item, Parallel):
            widths.append(_spread(item) / 2)
        if isinstance(item, Frame):
            widths.append(_half(item.items))
    return max(widths)


def _spread(item: Parallel) -> float:
    return len(item.branches) * (HALF + LANE) - LANE


class _Column:
    """Places the items of one column, bottom to top."""

    def __init__(self, out: Layout, column: Column, x: float) -> None:
        self.out, self.side, self.x = out, column.side, x
        self.edges = {e.target: e for e in out.drawing.edges if e.kind == "stream"}
        self.last: Node | None = None
        #: Top of the highest box beside the stream.
        self.beside = 0.0
        #: Edges whose label has its room below a frame.
        self.roomy: set[str] = set()

    def gap(self, node: Node) -> float:
        """Room for the edge below a node on the stream."""
        edge = self.edges.get(node.id)
        if self.last is None or edge is None:
            return 0.0
        if node.role == "fork":
            return 9.0
        room = 24.0 if edge.fan > 1 else 17.0
        if self.last.role == "fork":
            room -= 5.0
        return max(room, 26.0) if edge.label else room

    def stack(self, items: Sequence[Item], y: float) -> float:
        """Places items from y upward; the top of the last."""
        for item in items:
            match item:
                case Node():
                    y = self.node(item, y + self.gap(item), self.x, BOX)
                case Added():
                    y = self.added(item, y)
                case Beside():
                    y = self.table(item, items, y)
                case Parallel():
                    y = self.parallel(item, y)
                case Frame():
                    y = self.frame(item, y)
        return y

    def node(self, node: Node, y: float, x: float, w: float, h: float | None = None) -> float:
        """Places a node with its bottom at y; its top."""
        w, h = self.size(node, w) if h is None else (w, h)
        self.out.nodes[node.id] = Rect(x, y + h / 2, w, h)
        self.last = node
        return y + h

    def size(self, node: Node, w: float) -> tuple[float, float]:
        match node.role:
            case "fork":
                return 0.0, 0.0
            case "sum":
                return 2 * MARK, 2 * MARK
            case "input" | "output":
                text = " ".join((node.title, *node.facts))
                self.out.facts[node.id] = node.facts
                return width(text, TITLE) + 12.0, 16.0
            case "norm":
                self.out.facts[node.id] = node.facts
                return w, 20.0
        beside = width(active(node), FACT) + 12.0 if node.idle else 0.0
        rows = lines(node.facts or ("",) * bool(node.idle), FACT, w - 20.0, beside)
        self.out.facts[node.id] = rows
        return w, 24.0 + ROW * len(rows) + (CHIP if node.chips else 0.0)

    def added(self, item: Added, y: float) -> float:
        """⊕ on the stream, the table beside it, and the table's input below that."""
        _, h = self.size(item.table, SIDE)
        _, below = self.size(item.input, SIDE)
        y += max(self.gap(item.sum), h / 2 - MARK - 2.0)
        y = max(y, self.beside + 6.0 + below + INPUT + h / 2 - MARK)
        top = self.node(item.sum, y, self.x, BOX)
        side = self.x + self.side * (BOX / 2 + LANE / 2 + SIDE / 2)
        middle = y + MARK
        self.node(item.table, middle - h / 2, side, SIDE)
        self.node(item.input, middle - h / 2 - INPUT - below, side, SIDE)
        self.last, self.beside = item.sum, middle + h / 2
        return max(top, middle + h / 2 - 8.0)

    def table(self, item: Beside, items: Sequence[Item], y: float) -> float:
        """A table between the stream's foot and its layers, below the lane in which it reaches its reader."""
        x = self.x + self.side * (_half(_around(items, item.reader)) + LANE)
        last = self.last
        top = self.node(item.table, y + 12.0, x, TABLE)
        self.last = last
        return top - 4.0

    def parallel(self, item: Parallel, y: float) -> float:
        """Branches side by side; rows of equal height where they have equally many boxes."""
        n = len(item.branches)
        sizes = [[(self.gap(node), self.size(node, HALF)[1]) for node in branch] for branch in item.branches]
        if len({len(s) for s in sizes}) == 1:
            sizes = [[(max(g for g, _ in row), max(h for _, h in row)) for row in zip(*sizes, strict=True)]] * n
        tops = []
        for i, branch in enumerate(item.branches):
            x, at = self.x + (i - (n - 1) / 2) * (HALF + LANE), y + 8.0
            for node, (gap, h) in zip(branch, sizes[i], strict=True):
                at = self.node(node, at + gap, x, HALF, h)
            tops.append(at)
        return max(tops) - 2.0

    def frame(self, item: Frame, y: float) -> float:
        """A frame with what it repeats written beside it, on the residuals' side."""
        bottom = y + (12.0 if self.last else 0.0) + self.room(item)
        start = len(self.out.texts)
        before = set(self.out.nodes) | set(self.out.frames)
        self.out.frames[item.id] = Rect(0, 0, 0, 0)
        top = self.stack(item.items, bottom + 4.0) + 12.0
        inner = [r for name, r in {**self.out.nodes, **self.out.frames}.items() if name not in before and r.w]
        near = max(-self.side * (r.side(-self.side)[0] - self.x) for r in inner)
        far = max(self.side * (r.side(self.side)[0] - self.x) for r in inner)
        texts = [extent(t) for t in self.out.texts[start:]]
        far = max([far + LANE if not texts else far, *(self.side * (t.side(self.side)[0] - self.x) for t in texts)])
        a, b = self.x + self.side * (far + PAD), self.x - self.side * (near + PAD)
        self.out.frames[item.id] = Rect((a + b) / 2, (top + bottom) / 2, abs(a - b), top - bottom)
        self.label(item, self.out.frames[item.id])
        return top

    def room(self, item: Frame) -> float:
        """Room below a frame for what is written on the edge into it; the outermost frame leaves it."""
        first = next(nodes_of((item,))).id
        if first in self.roomy or first not in self.edges or not self.edges[first].label:
            return 0.0
        self.roomy.add(first)
        return 10.0

    def label(self, item: Frame, rect: Rect) -> None:
        rows = [row for text in item.label for row in lines((text,), SMALL, BESIDE)]
        x, _ = rect.side(self.side)
        y = rect.y + 6.0 * (len(rows) - 1)
        for i, row in enumerate(rows):
            big = i == 0 and item.times > 1
            text = Text(x + self.side * 7.0, y, row, TIMES if big else SMALL, -self.side, big, i > 0)
            self.out.texts.append(text)
            y -= 15.0 if big else 12.0


def _title(out: Layout) -> None:
    left, bottom, right, top = out.bounds
    x = (left + right) / 2 if len(out.drawing.columns) > 1 else 0.0
    rows = out.drawing.subtitle
    y = top + 22.0 + 14.0 * len(rows)
    out.texts.append(Text(x, y, out.drawing.name, 18.0, 0, True, False))
    for i, row in enumerate(rows):
        out.texts.append(Text(x, y - 20.0 - 14.0 * i, row, 10.0))
    out.texts.append(Text(x, bottom - 16.0, LEGEND, SMALL))
