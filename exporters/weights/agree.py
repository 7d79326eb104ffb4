"""Do a checkpoint's config and a spec describe the same function?"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from math import isclose
from typing import TYPE_CHECKING, Any

from archspec.compiler.lower import lower
from archspec.compiler.resolve import resolve_text
from archspec.errors import SpecError, WeightsError
from archspec.ops.model import Model
from archspec.ops.record import Record

from .config import Ledger
from .faults import in_runs
from .maps import Family

if TYPE_CHECKING:
    from .source import Checkpoint

#: What a run of the model does not depend on.
NO_FUNCTION = ("name", "dtype", "dropout")
#: What the tensors themselves say.
SEEN_IN_TENSORS = ("bias", "tied", "owners")
#: Parts that a path does not name.
SILENT = ("sublayers", "f")


def disagreements(
    family: Family, model: Model, source: Checkpoint, context_length: int | None
) -> tuple[list[str], tuple[str, ...]]:
    """Sentences about everything in which the checkpoint's config or metadata and the model differ; and the keys left unread."""
    if family.read is None or not source.metadata:
        return [], ()
    ledger = Ledger(source.metadata, source)
    try:
        stated = family.read(ledger)
        expected = _model(stated, model)
    except WeightsError as error:
        return [f"{_origin(source)}: {error.message}"], ()
    found = differences(model, expected, NO_FUNCTION + SEEN_IN_TENSORS)
    lines = in_runs(f"{path} is {ours} in the spec and {theirs} in {_origin(source)}" for path, ours, theirs in found)
    longest = stated.get("context_length")
    if context_length and longest and context_length > longest:
        lines.append(f"context_length is {context_length} in the spec and {longest} in {_origin(source)}")
    return lines, () if family.format == "gguf" else tuple(ledger.unread())


def must_say(family: Family, config: Mapping[str, Any], model: Model) -> None:
    """Raises `WeightsError` where the config, read back, is another model."""
    if family.read is None:
        raise WeightsError(f"{family.name} has no config.")
    expected = _model(family.read(Ledger(config)), model)
    if expected.form != model.form:
        raise WeightsError(f"the {family.name} form is for one of form {expected.form}.")
    found = list(differences(model, expected, NO_FUNCTION))
    if found:
        lines = in_runs(f"{path} is {ours}, the {family.name} form has {theirs}" for path, ours, theirs in found)
        raise WeightsError("\n  ".join([f"{model.name} is not of the {family.name} form:", *lines]))


def _origin(source: Checkpoint) -> str:
    return "the file's metadata" if "gguf" in source.formats else "config.json"


def _model(stated: Mapping[str, Any], beside: Model) -> Model:
    """The operations of what a config says. A config does not say which head its checkpoint has: the tensors do."""
    text = json.dumps({"archspec": 1, "name": "config", **stated})
    try:
        model = lower(resolve_text(text, "config").spec)
    except SpecError as error:
        raise WeightsError("; ".join(d.message for d in error.diagnostics)) from None
    return model if type(model.head) is type(beside.head) else model.replaced(head=beside.head)


def differences(a: object, b: object, ignored: Collection[str], path: str = "") -> Iterator[tuple[str, str, str]]:
    """(path, a's value, b's value) wherever two operations differ, by the paths of the language."""
    if a == b or (isinstance(a, float) and isinstance(b, float) and isclose(a, b, rel_tol=1e-6)):
        return  # GGUF keeps its figures in float32
    if isinstance(a, Record) and type(a) is type(b):
        for name in a.fields:
            if name not in ignored:
                at = path if name in SILENT else f"{path}.{name}".lstrip(".")
                yield from differences(getattr(a, name), getattr(b, name), ignored, at)
    elif isinstance(a, tuple) and isinstance(b, tuple) and [n for n, _ in _parts(a)] == [n for n, _ in _parts(b)] != []:
        for (name, x), (_, y) in zip(_parts(a), _parts(b), strict=True):
            yield from differences(x, y, ignored, f"{path}.{name}")
    else:
        yield path, _shown(a), _shown(b)


def _parts(items: tuple[object, ...]) -> list[tuple[str, object]]:
    """Operations in a row by their names or numbers; nothing for a row of plain values."""
    if any(isinstance(item, Record) for item in items):
        return [(str(getattr(item, "name", i)), item) for i, item in enumerate(items)]
    named = [item for item in items if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], Record)]
    return [(str(name), item) for name, item in named]


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return str(len(value)) if _parts(value) else f"[{', '.join(map(str, value))}]"
    return type(value).__name__ if isinstance(value, Record) else "none" if value is None else str(value)
