"""Tables as text, CSV, Markdown or JSON: one table, four ways to say it."""

from __future__ import annotations

import csv
import io
import json
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Format = Literal["text", "json", "csv", "markdown"]
Cell = str | int | float | None

#: Characters that a wrapped column keeps on a narrow terminal.
NARROWEST = 20


@dataclass(frozen=True)
class Column:
    """A column: its key in JSON and CSV, its heading, and how people read its values."""

    key: str
    title: str
    show: Callable[[Any], str] = str
    right: bool = False


@dataclass
class Table:
    """Rows under a title. `notes` follow it, wrapped in text; a row of None is a rule."""

    title: str
    columns: Sequence[Column]
    rows: list[Sequence[Cell] | None] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def records(self) -> list[dict[str, Cell]]:
        """The rows as plain data."""
        return [{c.key: v for c, v in zip(self.columns, row, strict=True)} for row in self.rows if row]

    def shown(self, row: Sequence[Cell]) -> list[str]:
        """A row as people read it."""
        return ["" if v is None else c.show(v) for c, v in zip(self.columns, row, strict=True)]

    # ------------------------------------------------------------------------------------------------------- renderers

    def text(self, bold: Callable[[str], str] = str, dim: Callable[[str], str] = str, width: int | None = None) -> str:
        """Aligned columns under a bold title. `width`: characters of a line, to which a last column of words is wrapped."""
        heads = [c.title for c in self.columns]
        body = [self.shown(r) if r else None for r in self.rows]
        widths = [max(len(r[i]) for r in [heads, *(b for b in body if b)]) for i in range(len(heads))]
        if width and not self.columns[-1].right:
            left = width - sum(widths[:-1]) - 2 * (len(widths) - 1)
            widths[-1] = min(widths[-1], max(left, NARROWEST))

        def line(cells: Sequence[str]) -> str:
            aligned = (
                c.rjust(w) if col.right else c.ljust(w) for c, w, col in zip(cells, widths, self.columns, strict=True)
            )
            return "  ".join(aligned).rstrip()

        def lines_of(cells: Sequence[str]) -> Iterator[str]:
            parts = _wrapped(cells[-1], widths[-1], "") if len(cells[-1]) > widths[-1] else [cells[-1]]
            yield line([*cells[:-1], parts[0]])
            yield from (line([""] * (len(cells) - 1) + [part]) for part in parts[1:])

        rule = dim("─" * (sum(widths) + 2 * (len(widths) - 1)))
        lines = [bold(self.title)] if self.title else []
        if any(heads):
            lines.append(dim(line(heads)))
        for b in body:
            lines += lines_of(b) if b else [rule]
        return "\n".join([*lines, *(dim(part) for note in self.notes for part in _wrapped(note, 80, "  "))])

    def markdown(self) -> str:
        """A GitHub table under a heading."""
        escape = [[c.replace("|", "\\|") for c in self.shown(r)] for r in self.rows if r]
        heads = "| " + " | ".join(c.title for c in self.columns) + " |"
        rule = "|" + "|".join(" ---: " if c.right else " --- " for c in self.columns) + "|"
        title = [f"### {self.title}", ""] if self.title else []
        notes = ["", *self.notes] if self.notes else []
        return "\n".join([*title, heads, rule, *("| " + " | ".join(r) + " |" for r in escape), *notes])


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
