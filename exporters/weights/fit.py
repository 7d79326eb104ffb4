"""Does a checkpoint fit a model? Everything is checked, and every fault listed, before a weight is used."""

from __future__ import annotations

from dataclasses import dataclass

from archspec.errors import WeightsError
from archspec.ops.model import Model

from .agree import disagreements
from .compare import is_zero, same
from .families import all_families
from .faults import Faults
from .maps import Entry, Plan, recognise
from .source import REAL, Checkpoint


@dataclass(frozen=True)
class Fit:
    """A checkpoint that fits a model: where each of the model's tensors is, and what is left over (as in `LoadReport`)."""

    family: str
    entries: tuple[Entry, ...]
    unused: tuple[str, ...]
    buffers: tuple[str, ...]
    unread: tuple[str, ...]


def fitted(model: Model, source: Checkpoint, context_length: int | None = None) -> Fit:
    """Hold a checkpoint against a model, all of it.

    `context_length` is the spec's, held against the checkpoint's own where positions are not a table.
    Raises `WeightsError` with all faults: missing, extra or misshapen tensors, tied tensors that differ, and every figure of
    the checkpoint's config or metadata that the spec contradicts.
    """
    found = choose(model, source)
    faults = Faults()
    disagreeing, unread = disagreements(found.family, model, source, context_length)
    faults.disagreeing += disagreeing
    faults.nameless += found.nameless
    given = [_available(e, found, model, source) for e in found.entries]
    for entry in given:
        _check_present(entry, source, faults)
    _check_copies(found, model, source, faults)
    unused, buffers = _leftover(found, model, source, faults)
    faults.raise_if_any(model, source, found.family.name)
    return Fit(found.family.name, tuple(given), unused, buffers, unread)


def choose(model: Model, source: Checkpoint) -> Plan:
    """The map for a checkpoint: by the names of its tensors, among those that its config allows where there is one."""
    legal = [f for f in all_families() if f.format in source.formats]
    kind = source.metadata.get("model_type") or source.metadata.get("general.architecture")
    named = [f for f in legal if kind in f.types or f.format == "archspec"] if kind else legal
    plans = recognise(named, model, source.shapes)
    if not plans and kind and all(f.format == "archspec" for f in named):
        known = sorted({t for f in legal for t in f.types})
        raise WeightsError(f"{source.path}: there is no name map for `{kind}`.", f"known: {', '.join(known)}")
    if len(plans) == 1:
        return plans[0]
    if plans:
        names = ", ".join(p.family.name for p in plans)
        raise WeightsError(f"{source.path}: the tensor names fit several maps ({names}).", "put config.json beside it")
    first = ", ".join(list(source.shapes)[:3]) or "none at all"
    raise WeightsError(f"{source.path}: no name map knows these tensors: {first}, ...")


def _available(entry: Entry, found: Plan, model: Model, source: Checkpoint) -> Entry:
    """The entry by the name that the file has: its own, that of a copy, or that of a tensor tied to it."""
    if all(n in source.shapes for n in entry.theirs):
        return entry
    tied = [a.theirs for a in found.aliases if tuple(model.ties[p] for p in a.paths) == entry.paths]
    for names in (entry.copies, *tied):
        if names and len(names) == len(entry.theirs) and all(n in source.shapes for n in names):
            return Entry(entry.ours, names, (), entry.chain, entry.op)
    return entry


def _check_present(entry: Entry, source: Checkpoint, faults: Faults) -> None:
    for name, shape in zip(entry.theirs, entry.shapes, strict=True):
        if name not in source.shapes:
            faults.missing[name] = entry.paths
        elif source.shapes[name] != shape:
            faults.misshapen[name] = (source.shapes[name], shape, entry.paths)
        elif not REAL.fullmatch(source.dtypes[name]):
            faults.untyped[name] = source.dtypes[name]


def _check_copies(found: Plan, model: Model, source: Checkpoint, faults: Faults) -> None:
    """All names of a tensor that the file has must hold the same values."""
    further: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for alias in found.aliases:
        further.setdefault(tuple(model.ties[p] for p in alias.paths), []).append(alias.theirs)
    for entry in found.entries:
        for i, name in enumerate(entry.theirs):
            copies = entry.copies if i == 0 else ()
            names = [name, *copies, *(tied[i] for tied in further.get(entry.paths, ()) if i < len(tied))]
            first, *rest = [n for n in names if n in source.shapes] or [""]
            faults.untied += [(first, n) for n in rest if not same(source, first, n)]


def _leftover(found: Plan, model: Model, source: Checkpoint, faults: Faults) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names that the plan does not use: (of other heads, computed); all others are faults."""
    rest = [n for n in source.shapes if n not in found.names]
    buffers = [
        n for n in rest if found.family.is_buffer(n, found.base) or (n in found.family.idle and is_zero(source, n))
    ]
    unused = [n for n in rest if found.family.is_of_another_head(n, model, found.base)]
    faults.extra += [n for n in rest if n not in buffers and n not in unused]
    return tuple(unused), tuple(buffers)
