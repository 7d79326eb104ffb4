"""Validation of the complete spec, once."""

from __future__ import annotations

from pydantic import ValidationError

from archspec.language.model import Spec

from .merge import Trace
from .nodes import Node, Report, plain
from .places import Path


def validate(root: Node, report: Report, trace: Trace) -> tuple[Spec | None, frozenset[Path]]:
    """The spec. With errors in its form, which are in the report then: what is left of it, and the paths that were cut out."""
    try:
        return Spec.model_validate(plain(root)), frozenset()
    except ValidationError as error:
        return _faulty(root, error, report, trace)


def _faulty(root: Node, error: ValidationError, report: Report, trace: Trace) -> tuple[Spec | None, frozenset[Path]]:
    from .faults import Translation  # only where something is wrong
    from .repair import repair

    translation = Translation(root, report, trace)
    translation.tell(error.errors(include_url=False, include_input=False))
    repaired = repair(root, translation.faults, translation.strangers)
    if repaired is None:
        return None, frozenset()
    try:
        return Spec.model_validate(plain(repaired[0])), repaired[1]
    except ValidationError:
        return None, frozenset()
