"""From a reference to a complete, checked spec."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from archspec.diagnostics import Diagnostic
from archspec.errors import SpecError
from archspec.language.model import Spec

from .check import check
from .derive import derive
from .expand import expand
from .inherit import load, load_source
from .merge import Trace
from .nodes import Node, Report
from .places import Places
from .runs import normal_runs
from .source import Source
from .validate import validate


class Resolved(NamedTuple):
    """A complete spec, what is doubtful about it, and where its values were written."""

    spec: Spec
    warnings: tuple[Diagnostic, ...]
    places: Places


def resolve(ref: str | Path, overrides: Sequence[str] = ()) -> Resolved:
    """The complete spec behind a path, a folder or a zoo name, with `path=value` overrides. Raises `SpecError` with all errors."""
    report, trace = Report(), Trace()
    return _finish(load(ref, overrides, report, trace), report, trace)


def resolve_text(text: str, name: str = "spec.yaml", overrides: Sequence[str] = ()) -> Resolved:
    """As `resolve`, of a text; a relative `extends` starts from the working directory."""
    report, trace = Report(), Trace()
    return _finish(load_source(Source(name, text), name, overrides, report, trace), report, trace)


def _finish(merged: Node, report: Report, trace: Trace) -> Resolved:
    root = derive(expand(merged, report, trace))
    spec, tainted = validate(root, report, trace)
    places = Places(root)
    if spec is not None:
        check(spec, places, report, trace, tainted)
    if report.errors or spec is None:
        raise SpecError(_in_order(report.errors))
    return Resolved(normal_runs(spec), tuple(_in_order(report.warnings)), places)


def _in_order(found: list[Diagnostic]) -> list[Diagnostic]:
    return sorted(found, key=lambda d: (d.place.file, d.place.line, d.place.column) if d.place else ("", 0, 0))
