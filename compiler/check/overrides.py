"""Overrides that change nothing."""

from __future__ import annotations

from ..merge import Trace
from ..nodes import Report, show_value


def check_overrides(report: Report, trace: Trace) -> None:
    """Warn of what merging found to be idle: a value said again, a `none` over nothing."""
    for place, base in trace.repeated.items():
        where = f"{base.place.file}:{base.place.line}" if base.place.file != place.file else f"line {base.place.line}"
        value = base.value if isinstance(base.value, str) else show_value(base.value)
        report.warn("A701", f"this changes nothing: it is {value} already ({where})", place, "remove the line")
    for place, (path, _) in trace.absent.items():
        name = path.rpartition(".")[2]
        report.warn("A701", f"this changes nothing: there is no `{name}` to remove", place, "remove the line")
