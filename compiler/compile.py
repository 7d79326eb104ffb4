"""From a reference to operations: resolve, lower, and hold the count against what the spec expects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from archspec.diagnostics import Diagnostic
from archspec.errors import SpecError
from archspec.language.model import Spec
from archspec.ops.model import Model
from archspec.ops.record import Record

from .check.expect import expect_missed
from .lower import lower
from .parameters import count_parameters
from .resolve import Resolved, resolve


class Compiled(Record):
    """A checked spec, its operations, and what is doubtful about it."""

    spec: Spec
    model: Model
    warnings: tuple[Diagnostic, ...]


def compile_spec(ref: str | Path, overrides: Sequence[str] = ()) -> Compiled:
    """Compile a path, a folder or a zoo name. Raises `SpecError`: with every error of it, or the totals that it misses."""
    return finish(resolve(ref, overrides))


def finish(resolved: Resolved) -> Compiled:
    """Lower a resolved spec and check its `expect`."""
    model = lower(resolved.spec)
    counted = count_parameters(model)
    totals = {"parameters": counted.total, "active_parameters": counted.active}
    missed = [expect_missed(resolved.spec, resolved.places, n, field) for field, n in totals.items()]
    if any(missed):
        raise SpecError([d for d in missed if d])
    return Compiled(resolved.spec, model, resolved.warnings)
