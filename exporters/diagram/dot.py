"""DOT text. Positions are fixed (`layout=nop2`), so that `dot -Tsvg` and every other Graphviz draws the same picture."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from .facts import human
from .graph import EdgeKind, Frame, Item, Node, Role
from .layout import CORNER, FACT, MARGIN, SMALL, TITLE, Layout, Path, Point, Rect, Text, place
from .graph import Drawing

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
EDGES: dict[EdgeKind, str] = {
    "stream": f'color="{LINE}"',
    "residual": f'color="{LINE}"',
    "memory": 'color="#A9701B"',
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
            f'  graph [layout="nop2", bgcolor="white", pad="{MARGIN / 72:.3f}", outputorder="nodesfirst", tooltip=" ",'
            f' bb="{left:.1f},{bottom:.1f},{right:.1f},{top:.1f}", fontname="{FONT}"]',
            f'  node [shape="box", style="rounded,filled", fixedsize="shape", penwidth="0.9", margin="0",'
            f' fontname="{FONT}", fontsize="{TITLE:g}", fontcolor="{INK}", label=""]',
            f'  edge [penwidth="1.0", arrowsize="{ARROW}", color="{LINE}", tooltip=" "]',
            *_frames(layout),
            *_nodes(layout),
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
    return escape(printable(text), quote=True)


def printable(text: str) -> str:
    """The text without what XML cannot hold."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text).replace("\n", " ")
