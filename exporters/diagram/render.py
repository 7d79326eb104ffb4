"""Pictures as the bytes of a file. SVG, PNG and PDF are drawn by Graphviz; DOT and Mermaid are text and need nothing."""

from __future__ import annotations

from typing import Literal, get_args

from archspec.errors import UsageError
from archspec.ops.model import Model

from .build import draw
from .dot import dot
from .mermaid import mermaid
from .pen import Level

Format = Literal["svg", "png", "pdf", "dot", "mermaid"]
FORMATS: tuple[Format, ...] = get_args(Format)
SUFFIXES: dict[str, Format] = {
    ".svg": "svg", ".png": "png", ".pdf": "pdf", ".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".mermaid": "mermaid",
}  # fmt: skip
GET_GRAPHVIZ = (
    "install Graphviz (apt install graphviz, brew install graphviz, winget install graphviz; see graphviz.org/download),"
    " or write DOT or Mermaid, which need no program: -o NAME.dot, -o NAME.mmd"
)


class MissingGraphviz(UsageError):  # noqa: N818
    """The picture needs the `dot` program, which is not installed. `dot` holds its DOT text."""

    def __init__(self, fmt: str, text: str) -> None:
        super().__init__(
            f"drawing {fmt.upper()} needs the program `dot` of Graphviz, which is not on the PATH", GET_GRAPHVIZ
        )
        self.dot = text


#: More edges than this some Mermaid viewers refuse, and nobody reads.
MOST_EDGES = 280


def diagram(model: Model, fmt: Format = "svg", *, level: Level | None = None, context: int | None = None) -> bytes:
    """The picture of a model as the bytes of a file. `level`: `block` draws inside layers, `model` a layer as one box. `context`:
    tokens that the model is for, said above it.

    By default `block`, unless so many layers differ that it has more than `MOST_EDGES` edges.
    Raises `MissingGraphviz` (a `UsageError`) for svg, png and pdf where the `dot` program is missing, `UsageError` for a
    format that is none of these.
    """
    if fmt not in FORMATS:
        raise UsageError(f"there is no diagram format {fmt!r}", f"one of {', '.join(FORMATS)}")
    if level is not None and level not in get_args(Level):
        raise UsageError(f"there is no diagram level {level!r}", f"one of {', '.join(get_args(Level))}")
    drawing = draw(model, level or "block", context)
    if level is None and len(drawing.edges) > MOST_EDGES:
        drawing = draw(model, "model", context)
    if fmt == "mermaid":
        return mermaid(drawing).encode()
    text = dot(drawing)
    return text.encode() if fmt == "dot" else _graphviz(text, fmt)


def _graphviz(text: str, fmt: Format) -> bytes:
    import graphviz  # only here: text formats need neither the package nor the program

    # a png has twice the points, for screens of today
    drawn = text.replace("graph [", 'graph [dpi="144", ', 1) if fmt == "png" else text
    try:
        data: bytes = graphviz.pipe("dot", fmt, drawn.encode())
    except graphviz.ExecutableNotFound as error:
        raise MissingGraphviz(fmt, text) from error
    return data
