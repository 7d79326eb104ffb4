"""A comparison of two models as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from archspec.compiler.compare import Comparison, Difference
from archspec.compiler.show import inline

from .count_tables import NAMES
from .tables import Cell, Column, Table
from .units import exact, flops, many, size

#: The longest name of a spec that stands over a column of numbers.
_HEADING = 18


def tables(c: Comparison) -> list[Table]:
    """What differs, what differs without a function, and the numbers of both where the function is another."""
    a, b = c.a.prefill.name, c.b.prefill.name
    if not c:
        return [_said(f"{a} and {b} mean the same: their complete specs are equal", ())]
    functional = [d for d in c.differences if d.function]
    others = [d for d in c.differences if not d.function]
    if not functional:
        return [_said(f"{a} and {b} compute the same: what differs has no function", others)]
    first = _said(f"{a} → {b}: {many(len(functional), 'difference')}", functional)
    return [first, *([_said("Without a function", others)] if others else []), _numbers(c)]


def _said(title: str, differences: Sequence[Difference]) -> Table:
    """A path and its values in a row; of `about` and `expect`, the keys alone."""
    t = Table(title, (Column("path", ""), Column("change", "")))
    keys: dict[str, list[str]] = {}
    for d in differences:
        top, _, key = d.path.partition(".")
        if top in ("about", "expect") and key:
            keys.setdefault(top, []).append(key)
        else:
            t.rows.append((d.path, str(d)))
    t.rows += [(top, ", ".join(found)) for top, found in keys.items()]
    return t


# ------------------------------------------------------------------------------------------------------------ numbers

#: How the rows of `numbers` are called, and their values said; the others are parameters of a component.
_LABELS = {
    ("parameters", "total"): ("parameters", exact),
    ("parameters", "active"): ("  active", exact),
    ("flops", "prefill"): ("FLOPs, prompt", flops),
    ("flops", "step"): ("FLOPs, step", flops),
    ("kv_cache", "total"): ("KV cache", size),
    ("memory", "weights"): ("weights", size),
}


def _numbers(c: Comparison) -> Table:
    n = c.a.prefill.lengths
    source = max(n.source, c.b.prefill.lengths.source)
    names = [side.prefill.name for side in (c.a, c.b)]
    a, b = names if names[0] != names[1] and max(map(len, names)) <= _HEADING else ("A", "B")
    t = Table(
        f"Numbers in {c.a.prefill.precision}: batch {n.batch:,}, {many(n.length, 'token')}"
        + (f", {many(source, 'source token')}" if source else ""),
        (Column("what", ""), Column("a", a, right=True), Column("b", b, right=True), Column("change", "", right=True)),
    )
    for table, row, quantity, first, second in numbers(c):
        if quantity != "dense" and (first or second):
            label, show = _LABELS.get((table, row)) or (f"  {NAMES.get(row, row.replace('_', ' '))}", exact)
            t.rows.append((label, *("" if x is None else show(x) for x in (first, second)), change(first, second)))
    step = f"; a step: one after {n.length - 1:,} others" if c.a.step or c.b.step else ""
    prompt = f"The prompt: {many(n.length, 'new token')}{step}."
    t.notes.append(f"{prompt} FLOPs are of the query-key pairs that masks let through.")
    return t


def numbers(c: Comparison) -> Iterator[tuple[str, str, str, int | None, int | None]]:
    """Table, row and quantity as in the CSV of `count`, and what it is in both; None where there is no such thing."""
    a, b = (side.record() for side in (c.a, c.b))
    p, q = a["parameters"], b["parameters"]
    yield "parameters", "total", "parameters", p["total"], q["total"]
    if (p["active"], q["active"]) != (p["total"], q["total"]):
        yield "parameters", "active", "parameters", p["active"], q["active"]
    for name in dict.fromkeys((*p["by_component"], *q["by_component"])):
        yield "parameters", name, "parameters", p["by_component"].get(name), q["by_component"].get(name)
    for call in ("prefill", "step"):
        of_a, of_b = a["flops"][call] or {}, b["flops"][call] or {}
        for quantity in ("dense", "causal"):
            yield "flops", call, quantity, of_a.get(quantity), of_b.get(quantity)
    yield "kv_cache", "total", "bytes", a["kv_cache"]["bytes"], b["kv_cache"]["bytes"]
    yield "memory", "weights", "bytes", a["memory"]["weights"], b["memory"]["weights"]


def change(a: int | None, b: int | None) -> str:
    """`=`, `-49.9 %`, `+0.003 %`, and from twice as much on `× 2.85`; nothing where one of both has no such thing."""
    if a is None or b is None or a == b:
        return "=" if a == b else ""
    if a == 0:
        return ""
    if b >= 2 * a:
        return f"× {b / a:,.2f}" if b < 100 * a else f"× {b / a:,.0f}"
    percent = 100 * (b - a) / a
    return f"{percent:+.1f} %" if abs(percent) >= 0.1 else f"{percent:+.1g} %"


def tidy(c: Comparison) -> Table:
    """All of it, one a row: its table, the row there, what is compared, and what it is in both."""
    t = Table("", tuple(Column(key, key) for key in ("table", "row", "quantity", "a", "b")))
    for d in c.differences:
        where = "value" if d.layers is None else "layers " + " ".join(_span(span) for span in d.layers)
        values: list[Cell] = [None if value is None else inline(value) for value in (d.old, d.new)]
        t.rows.append(("differences", d.path, where, *values))
    t.rows += numbers(c)
    return t


def _span(span: range) -> str:
    return f"{span.start}-{span.stop - 1}" if len(span) > 1 else str(span.start)
