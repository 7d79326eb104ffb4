"""What was wanted of a measurement, beside what was found: a table that says of each target whether it is met."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from archspec.exporters.tables import Column, Table


@dataclass(frozen=True)
class Target:
    """One number of a table and its bound.

    row: the first cells of its row. column: its key. most: a number, or the key of the column that holds it. over: the rows of
    others, of the same table; what is bounded is then the number over the largest of theirs.
    """

    what: str
    row: tuple[str, ...]
    column: str
    least: float | None = None
    most: float | str | None = None
    over: tuple[tuple[str, ...], ...] = ()


def judged(*asked: tuple[Table, Iterable[Target]]) -> Table:
    """A row for each target of each table."""
    columns = (Column("what", "wanted of archspec"), Column("bound", ""), Column("found", "found"), Column("met", ""))
    out = Table("Wanted", columns)
    for table, targets in asked:
        for target in targets:
            found = _number(table, target.row, target.column)
            if target.over:
                found /= max(_number(table, row, target.column) for row in target.over)
            most = _number(table, target.row, target.most) if isinstance(target.most, str) else target.most
            least = target.least
            met = (least is None or found >= least) and (most is None or found <= most)
            show = next(c.show for c in table.columns if c.key == target.column)
            bound = f"at least {show(least)}" if least is not None else f"at most {show(most)}"
            out.rows.append((target.what, bound, show(found), "met" if met else "**missed**"))
    return out


def _number(table: Table, row: Sequence[str], column: str) -> float:
    """Of the one row that begins so."""
    at = [c.key for c in table.columns].index(column)
    (found,) = (r[at] for r in table.rows if r and tuple(r[: len(row)]) == tuple(row))
    assert isinstance(found, int | float), f"{row} has no {column}"
    return float(found)
