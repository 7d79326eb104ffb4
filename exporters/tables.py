"""Tables as text, CSV, Markdown or JSON: one table, four ways to say it."""

from __future__ import annotations

import csv
import io
import json
import textwrap
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Literal

from archspec.ops.record import Record

Format = Literal["text", "json", "csv", "markdown"]
Cell = str | int | float | None

#: Characters that a wrapped column keeps on a narrow terminal.
NARROWEST = 16
#: Blanks between columns.
GAP = 2


class Column(Record):
    """A column: its key in JSON and CSV, its heading, and how people read its values."""

    key: str
    title: str
    show: Callable[[Any], str] = str
    right: bool = False


class Table:
    """Rows under a title. `notes` follow it, wrapped in text; a row of None is a rule."""

    def __init__(self, title: str, columns: Sequence[Column]) -> None:
        self.title, self.columns = title, columns
        self.rows: list[Sequence[Cell] | None] = []
        self.notes: list[str] = []

    def records(self) -> list[dict[str, Cell]]:
        """The rows as plain data."""
        return [{c.key: v for c, v in zip(self.columns, row, strict=True)} for row in self.rows if row]

    def shown(self, row: Sequence[Cell]) -> list[str]:
        """A row as people read it."""
        return ["" if v is None else c.show(v) for c, v in zip(self.columns, row, strict=True)]

    # ------------------------------------------------------------------------------------------------------- renderers

    def text(self, bold: Callable[[str], str] = str, dim: Callable[[str], str] = str, width: int | None = None) -> str:
        """Aligned columns under a bold title. `width`: characters of a line, to which all is wrapped that can be. A table that is
        wider all the same is turned, its rows side by side, if that is narrow enough, or has its first column wrapped. In others
        the first cell of each row has a line of its own; where that does not do, every cell has.
        """
        if width and (turned := self._turned(width)):
            return turned.text(bold, dim, width)
        heads = [c.title for c in self.columns]
        body = [self.shown(r) if r else None for r in self.rows]
        widths = [max(len(r[i]) for r in [heads, *(b for b in body if b)]) for i in range(len(heads))]
        if width and not self.columns[-1].right:
            left = width - sum(widths[:-1]) - GAP * (len(widths) - 1)
            widths[-1] = min(widths[-1], max(left, NARROWEST))
        if width and len(widths) > 1 and self._wraps(body, left := width - sum(widths[1:]) - GAP * (len(widths) - 1)):
            widths[0] = min(widths[0], left)
        whole = sum(widths) + GAP * (len(widths) - 1)
        apart = bool(width and whole > width and len(widths) > 1)  # the first column stands above the others
        below = whole - widths[0] if apart else whole
        stacked = bool(width and below > width)
        rule = dim("─" * min(below, width or below))
        lines = [*map(bold, _wrapped(self.title, width or len(self.title) + 1, "  "))]
        if any(heads) and not stacked:
            lines += map(dim, self._lines(heads, widths, apart))
        for b in body:
            lines += [rule] if not b else self._stacked(b, widths) if stacked else self._lines(b, widths, apart)
        notes = (part for note in self.notes for part in _wrapped(note, min(width or 80, 120), "  "))
        return "\n".join([*lines, *map(dim, notes)])

    def _wraps(self, body: Sequence[Sequence[str] | None], width: int) -> bool:
        """Can the first cells be wrapped to a width? Not where a word of them, a path, is longer."""
        words = (word for cells in body if cells for word in cells[0].split())
        return width >= max(NARROWEST, GAP + max(map(len, words), default=0))

    def _turned(self, width: int) -> Table | None:
        """A table of numbers with its rows as columns, where it is too wide as it is and narrow enough so."""
        rows = [self.shown(row) for row in self.rows if row]
        if len(rows) < len(self.rows) or not all(c.right for c in self.columns[1:]):
            return None
        heads = [c.title for c in self.columns]
        if _wide(heads, *rows) <= width or _wide(*zip(heads, *rows, strict=True)) > width:
            return None
        first, *others = zip(heads, *rows, strict=True)
        turned = Table(self.title, [Column(str(i), title, right=i > 0) for i, title in enumerate(first)])
        turned.rows, turned.notes = list(others), self.notes
        return turned

    def _lines(self, cells: Sequence[str], widths: Sequence[int], apart: bool) -> Iterator[str]:
        """A row in columns of these widths, its first and its last cell wrapped; `apart`: the first on a line before the others."""
        first, *rest = cells
        if apart:
            yield from _wrapped(first, sum(widths[1:]) + GAP * (len(widths) - 1), "  ")
            cells, widths = ["", *rest], [0, *widths[1:]]
        parts = [[cell] for cell in cells]
        for i, hanging in {0: "  ", len(cells) - 1: ""}.items():
            if len(cells[i]) > widths[i]:
                parts[i] = _wrapped(cells[i], widths[i], hanging)
        for line in zip_longest(*parts, fillvalue=""):
            aligned = zip(line, widths, self.columns, strict=True)
            yield (" " * GAP).join(c.rjust(w) if col.right else c.ljust(w) for c, w, col in aligned).rstrip()

    def _stacked(self, cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
        """A row as lines: its first cell, and below it each other one that says something, after its heading."""
        first, *rest = cells
        heading, value = max(len(c.title) for c in self.columns[1:]), max(widths[1:])
        yield first
        for cell, column in zip(rest, self.columns[1:], strict=True):
            if cell:
                aligned = cell.rjust(value) if column.right else cell
                yield f"{'':{GAP}}{column.title.ljust(heading)}{'':{GAP}}{aligned}".rstrip()

    def markdown(self) -> str:
        """A GitHub table under a heading."""
        escape = [[c.replace("|", "\\|") for c in self.shown(r)] for r in self.rows if r]
        heads = "| " + " | ".join(c.title for c in self.columns) + " |"
        rule = "|" + "|".join(" ---: " if c.right else " --- " for c in self.columns) + "|"
        title = [f"### {self.title}", ""] if self.title else []
        notes = ["", *self.notes] if self.notes else []
        return "\n".join([*title, heads, rule, *("| " + " | ".join(r) + " |" for r in escape), *notes])


def _wide(*rows: Sequence[str]) -> int:
    """Characters of a line that rows of cells take."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return sum(widths) + GAP * (len(widths) - 1)


def _wrapped(text: str, width: int, hanging: str) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)


def csv_text(table: Table) -> str:
    """A table as CSV: the keys of its columns, then its rows with plain numbers."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([c.key for c in table.columns])
    writer.writerows(row for row in table.rows if row)
    return out.getvalue().rstrip("\n")


def render(
    tables: Sequence[Table],
    fmt: Format,
    record: Any,
    bold: Callable[[str], str] = str,
    dim: Callable[[str], str] = str,
    width: int | None = None,
) -> str:
    """The tables in a format; `record` is what JSON says, and `bold`, `dim` and `width` are of text."""
    match fmt:
        case "json":
            return json.dumps(record, indent=2, ensure_ascii=False)
        case "csv":
            return "\n\n".join(map(csv_text, tables))
        case "markdown":
            return "\n\n".join(t.markdown() for t in tables)
        case "text":
            return "\n\n".join(t.text(bold, dim, width) for t in tables)
