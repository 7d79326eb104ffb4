"""Rectangles, lines and texts of a placed drawing, in points, y upward."""

from __future__ import annotations

from dataclasses import dataclass, field

from .graph import Drawing, Edge
from .text import width

Point = tuple[float, float]

TITLE, FACT, SMALL = 11.0, 9.0, 9.0
TIMES = 15.0
BOX = 208.0
HALF = 192.0
SIDE = 124.0
TABLE = 156.0
ROW = 12.0
CHIP = 22.0
LANE = 20.0
PAD = 12.0
INPUT = 11.0
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
        rects = [*self.nodes.values(), *self.frames.values(), *(extent(t) for t in self.texts)]
        points = [p for path in self.paths for p in path.points]
        xs = [x for r in rects for x in (r.left, r.right)] + [x for x, _ in points]
        ys = [y for r in rects for y in (r.bottom, r.top)] + [y for _, y in points]
        return min(xs), min(ys), max(xs), max(ys)


def extent(t: Text) -> Rect:
    """The room that a text takes."""
    w = width(t.text, t.size, t.bold)
    return Rect(t.x - t.align * w / 2, t.y, w, t.size * 1.2)
