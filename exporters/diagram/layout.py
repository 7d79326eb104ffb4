"""Where everything stands, in points, y upward: streams are straight lines, boxes of a column are equally wide, residuals
run in one lane beside the stream. Computed here rather than by Graphviz, which cannot keep a stream straight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .graph import Added, Column, Drawing, Edge, Frame, Item, Node, Parallel
from .text import lines, width

Point = tuple[float, float]

TITLE, FACT, SMALL = 11.0, 9.0, 9.0
TIMES = 15.0
BOX = 222.0
HALF = 176.0
SIDE = 112.0
LANE = 20.0
PAD = 12.0
MARK = 8.0
CORNER = 6.0
MARGIN = 10.0


@dataclass(frozen=True)
class Rect:
    """A rectangle by its centre."""

    x: float
    y: float
    w: float
    h: float

    @property
    def left(self) -> float:
        return self.x - self.w / 2

    @property
    def right(self) -> float:
        return self.x + self.w / 2

    @property
    def top(self) -> float:
        return self.y + self.h / 2

    @property
    def bottom(self) -> float:
        return self.y - self.h / 2

    def side(self, side: int) -> Point:
        """The middle of the left (-1) or right (1) side."""
        return (self.x + side * self.w / 2, self.y)


@dataclass(frozen=True)
class Text:
    """A line of text by the middle of its anchor; align -1: it begins at x, 0: centred, 1: it ends at x."""

    x: float
    y: float
    text: str
    size: float
    align: int = 0
    bold: bool = False
    soft: bool = True


@dataclass(frozen=True)
class Path:
    """An edge's polyline; its corners are rounded when it is written."""

    edge: Edge
    points: tuple[Point, ...]


@dataclass
class Layout:
    """The placed drawing. `facts`: the lines of each box, broken to its width."""

    drawing: Drawing
    nodes: dict[str, Rect] = field(default_factory=dict)
    frames: dict[str, Rect] = field(default_factory=dict)
    facts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    paths: list[Path] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """left, bottom, right, top of all there is."""
        rects = [*self.nodes.values(), *self.frames.values(), *(_extent(t) for t in self.texts)]
        points = [p for path in self.paths for p in path.points]
        xs = [x for r in rects for x in (r.left, r.right)] + [x for x, _ in points]
        ys = [y for r in rects for y in (r.bottom, r.top)] + [y for _, y in points]
        return min(xs), min(ys), max(xs), max(ys)


def _extent(t: Text) -> Rect:
    w = width(t.text, t.size, t.bold)
    return Rect(t.x - t.align * w / 2, t.y, w, t.size * 1.2)


def place(drawing: Drawing) -> Layout:
    """Columns side by side from one base line, then edges between what stands."""
    out = Layout(drawing)
    x = 0.0
    for i, column in enumerate(drawing.columns):
        if i:
            _, _, right, _ = out.bounds
            x = right + _lane(drawing) + _reach(column.items, -column.side)
        _Column(out, column, x).stack(column.items, 0.0)
    _Router(out).route()
    _title(out)
    return out


def _lane(drawing: Drawing) -> float:
    """Room between two stacks: for the encoder's output, and for the mark of a shared table."""
    return 64.0 if any(e.kind == "memory" for e in drawing.edges) else 40.0


def _reach(items: Sequence[Item], side: int) -> float:
    """How far a column without lanes extends from its stream to the side where no residual runs."""
    depth = max((1 + _depth(i.items) for i in items if isinstance(i, Frame)), default=0)
    return _half(items) + PAD * depth


def _depth(items: Sequence[Item]) -> int:
    return max((1 + _depth(i.items) for i in items if isinstance(i, Frame)), default=0)


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
        rows = lines(node.facts, FACT, w - 16.0)
        self.out.facts[node.id] = rows
        return w, 22.0 + 12.0 * len(rows)

    def added(self, item: Added, y: float) -> float:
        """⊕ on the stream, the table beside it, and the table's input below that."""
        _, h = self.size(item.table, SIDE)
        _, below = self.size(item.input, SIDE)
        y += max(self.gap(item.sum), h / 2 - MARK - 2.0)
        top = self.node(item.sum, y, self.x, BOX)
        side = self.x + self.side * (BOX / 2 + LANE / 2 + SIDE / 2)
        middle = y + MARK
        self.node(item.table, middle - h / 2, side, SIDE)
        self.node(item.input, middle - h / 2 - 11.0 - below, side, SIDE)
        self.last = item.sum
        return max(top, middle + h / 2 - 8.0)

    def parallel(self, item: Parallel, y: float) -> float:
        """Branches side by side; rows of equal height where they have equally many boxes."""
        n = len(item.branches)
        sizes = [[self.size(node, HALF)[1] for node in branch] for branch in item.branches]
        if len({len(s) for s in sizes}) == 1:
            sizes = [[max(row) for row in zip(*sizes, strict=True)]] * n
        tops = []
        for i, branch in enumerate(item.branches):
            x = self.x + (i - (n - 1) / 2) * (HALF + LANE)
            at = y + 10.0
            for node, h in zip(branch, sizes[i], strict=True):
                at = self.node(node, at + self.gap(node), x, HALF, h)
            tops.append(at)
        return max(tops) - 2.0

    def frame(self, item: Frame, y: float) -> float:
        """A frame with what it repeats written beside it, on the residuals' side."""
        bottom = y + (12.0 if self.last else 0.0)
        start = len(self.out.texts)
        before = set(self.out.nodes) | set(self.out.frames)
        self.out.frames[item.id + str(len(self.out.frames))] = Rect(0, 0, 0, 0)
        key = list(self.out.frames)[-1]
        top = self.stack(item.items, bottom + 4.0) + 12.0
        inner = [r for name, r in {**self.out.nodes, **self.out.frames}.items() if name not in before and r.w]
        near = max(max(-self.side * (self.x - r.side(-self.side)[0]) for r in inner), 0)
        far = max(self.side * (r.side(self.side)[0] - self.x) for r in inner)
        texts = [_extent(t) for t in self.out.texts[start:]]
        far = max([far + LANE if not texts else far, *(self.side * (t.side(self.side)[0] - self.x) for t in texts)])
        a, b = self.x + self.side * (far + PAD), self.x - self.side * (near + PAD)
        self.out.frames[key] = Rect((a + b) / 2, (top + bottom) / 2, abs(a - b), top - bottom)
        self.label(item, self.out.frames[key])
        return top

    def label(self, item: Frame, rect: Rect) -> None:
        rows = [t for t in item.label if t]
        x, _ = rect.side(self.side)
        y = rect.y + 6.0 * (len(rows) - 1)
        for row in rows:
            big = row.startswith("× ")
            text = Text(x + self.side * 7.0, y, row, TIMES if big else SMALL, -self.side, big, not big)
            self.out.texts.append(text)
            y -= 15.0 if big else 12.0


class _Router:
    """Paths of the edges."""

    def __init__(self, out: Layout) -> None:
        self.out = out
        self.side = {n.id: c.side for c in out.drawing.columns for n in _all(c.items)}

    def route(self) -> None:
        for edge in self.out.drawing.edges:
            a, b = self.out.nodes[edge.source], self.out.nodes[edge.target]
            match edge.kind:
                case "stream":
                    self.stream(edge, a, b)
                case "residual":
                    self.residual(edge, a, b)
                case "memory":
                    self.memory(edge, a, b)
                case "tie":
                    self.tie(edge, a, b)

    def draw(self, edge: Edge, *points: Point) -> None:
        self.out.paths.append(Path(edge, points))

    def write(self, x: float, y: float, text: str, align: int = 0) -> None:
        if text:
            self.out.texts.append(Text(x, y, text, SMALL, align))

    def stream(self, edge: Edge, a: Rect, b: Rect) -> None:
        if abs(a.x - b.x) < 1.0:
            self.draw(edge, (a.x, a.top), (b.x, b.bottom))
            self.write(a.x + 6.0, (a.top + b.bottom) / 2, edge.label, -1)
        elif b.w <= 2 * MARK:  # a branch into a sum
            side = -1 if a.x < b.x else 1
            if abs(a.y - b.y) < 1.0:
                self.draw(edge, a.side(-side), b.side(side))
            else:
                self.draw(edge, (a.x, a.top), (a.x, b.y), b.side(side))
        else:  # a branch from a fork
            self.draw(edge, (a.x, a.y), (b.x, a.y), (b.x, b.bottom))
        for i in range(edge.fan // 2):
            for dx in (-(i + 1) * 26.0, (i + 1) * 26.0):
                y = b.bottom - 12.0
                self.draw(edge, (b.x, y), (b.x + dx, y), (b.x + dx, b.bottom))

    def residual(self, edge: Edge, a: Rect, b: Rect) -> None:
        side = self.side[edge.target]
        inside = [r for r in self.out.nodes.values() if a.y <= r.y <= b.y and abs(r.x - a.x) < BOX * 1.2]
        x = a.x + side * (max(side * (r.side(side)[0] - a.x) for r in inside) + LANE * 0.6)
        self.draw(edge, (a.x, a.y), (x, a.y), (x, b.y), b.side(side))
        self.write((x + b.x) / 2, b.y + 7.0, edge.label)

    def memory(self, edge: Edge, a: Rect, b: Rect) -> None:
        side = -self.side[edge.target]
        lane = self.lane(edge)
        y = b.y + {"K": 7.0, "V": -7.0}.get(edge.label, 0.0)
        end = b.side(side)[0]
        self.draw(edge, (a.x, a.top), (a.x, a.top + 16.0), (lane, a.top + 16.0), (lane, y), (end, y))
        self.write(end + side * 12.0, y + 6.0 if edge.label != "V" else y - 6.5, edge.label)

    def lane(self, edge: Edge) -> float:
        left, right = (self.extent(i) for i in (0, 1))
        return (left[1] + right[0]) / 2

    def extent(self, column: int) -> tuple[float, float]:
        """left and right of a column's boxes and frames."""
        names = {n.id for n in _all(self.out.drawing.columns[column].items)}
        frames = [r for k, r in self.out.frames.items() if k.startswith(self.out.drawing.columns[column].name)]
        rects = [r for k, r in self.out.nodes.items() if k in names] + frames
        return min(r.left for r in rects), max(r.right for r in rects)

    def tie(self, edge: Edge, a: Rect, b: Rect) -> None:
        if self.side[edge.source] != self.side[edge.target]:
            left, right = (a, b) if a.x < b.x else (b, a)
            self.draw(edge, left.side(1), right.side(-1))
            self.write((left.right + right.left) / 2, left.y + 7.0, edge.label)
            return
        one = len(self.out.drawing.columns) == 1
        _, _, right_end, _ = self.out.bounds
        x = right_end + (10.0 if one else 8.0)
        self.draw(edge, a.side(1), (x, a.y), (x, b.y), b.side(1))
        self.write((b.right + x) / 2 if not one else x - 2.0, b.y + 8.0, edge.label, 0 if not one else 1)


def _all(items: Sequence[Item]) -> list[Node]:
    from .graph import nodes_of

    return list(nodes_of(tuple(items)))


def _title(out: Layout) -> None:
    left, _, right, top = out.bounds
    x = (left + right) / 2 if len(out.drawing.columns) > 1 else 0.0
    rows = out.drawing.subtitle
    y = top + 22.0 + 14.0 * len(rows)
    out.texts.append(Text(x, y, out.drawing.title, 18.0, 0, True, False))
    for i, row in enumerate(rows):
        out.texts.append(Text(x, y - 20.0 - 14.0 * i, row, 10.0))
