"""The ways of the edges between what stands: streams straight up, residuals in a lane beside them, the encoder's output in
the lane between two stacks, tables in a lane outside the residuals', ties around the outside.
"""

from __future__ import annotations

from .geometry import BOX, LANE, MARK, SMALL, Layout, Path, Point, Rect, Text
from .graph import Edge, nodes_of


class Router:
    """Paths of the edges."""

    def __init__(self, out: Layout) -> None:
        self.out = out
        self.side = {n.id: c.side for c in out.drawing.columns for n in nodes_of(c.items)}

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
                case "table":
                    self.draw(edge, (a.x, a.top), (a.x, b.y), b.side(self.side[edge.target]))
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
            self.write(a.x + 6.0, min((a.top + b.bottom) / 2, a.top + 13.0), edge.label, -1)
        elif b.w <= 2 * MARK:  # a branch into a sum
            side = -1 if a.x < b.x else 1
            if abs(a.y - b.y) < 1.0:
                self.draw(edge, a.side(-side), b.side(side))
            else:
                self.draw(edge, (a.x, a.top), (a.x, b.y), b.side(side))
                self.write((a.x + b.x) / 2, b.y + 7.0, edge.label)
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
        lane = self.lane()
        y = b.y + {"K": 7.0, "V": -7.0}.get(edge.label, 0.0)
        end = b.side(side)[0]
        self.draw(edge, (a.x, a.top), (a.x, a.top + 20.0), (lane, a.top + 20.0), (lane, y), (end, y))
        self.write(lane - side * 13.0, y + 6.0 if edge.label != "V" else y - 6.5, edge.label)

    def lane(self) -> float:
        """The middle between two stacks."""
        left, right = (self.extent(i) for i in (0, 1))
        return (left[1] + right[0]) / 2

    def extent(self, column: int) -> tuple[float, float]:
        """left and right of a column's boxes and frames."""
        names = {n.id for n in nodes_of(self.out.drawing.columns[column].items)}
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
        x = right_end + (18.0 if one else 8.0)
        low = a.y if one else a.bottom + 11.0  # below the input of the positions
        self.draw(edge, (a.right, low), (x, low), (x, b.y), b.side(1))
        self.write((b.right + x) / 2, b.y + 7.0, edge.label)
