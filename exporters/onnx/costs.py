"""What a precision costs, as a table that can be read without having seen one before."""

from __future__ import annotations

from archspec.exporters.tables import Column, Table
from archspec.exporters.units import share

from .measures import Measures
from .verify import Verification


def costs(checked: Verification) -> Table | None:
    """A row for each text that was measured; None where nothing was, as in float32."""
    if not checked.measures:
        return None
    chosen = checked.measures[0].agreement is not None
    columns = [
        Column("on", ""),
        Column("mean", "mean", _short, True),
        Column("allowed", "allowed", _short, True),
        Column("worst", "worst token" if chosen else "worst", _short, True),
    ]
    columns += [Column("same", "same choice", share, True), Column("sure", "where sure", right=True)] if chosen else []
    t = Table(f"What the precision costs, as {'KL divergence in nats' if chosen else '1 - cosine'}", columns)
    t.rows += [_row(m, chosen) for m in (*checked.measures, *checked.steps)]
    t.notes.append("compared with PyTorch in float32; the mean must not be more than is allowed (--budget)")
    if checked.steps:
        t.notes.append("one by one: compared with the same text read as a whole")
    if chosen:
        t.notes.append(
            "same choice: both have the same likeliest token; where sure: of those where float32's likeliest leads the next by "
            "more than the two differ"
        )
    return t


def _row(m: Measures, chosen: bool) -> tuple[str | float | None, ...]:
    head = (m.on, m.divergence, m.allowed, m.worst)
    sure = None if m.clear_agreement is None else f"{share(m.clear_agreement)} of {m.clear:,}"
    return (*head, m.agreement, sure) if chosen else head


def _short(x: float) -> str:
    return f"{x:.2g}"
