"""Runs of layers in their normal form, so that one model has one spec however its layers were grouped."""

from __future__ import annotations

from archspec.language.model import Entry, Group, Layer, Spec


def normal_runs(spec: Spec) -> Spec:
    """The spec with equal neighbours as one entry, and without groups that only group."""
    changed = {}
    for name, stack in spec.stacks().items():
        if (layers := _normal(stack.layers)) != stack.layers:
            changed[name] = stack.model_copy(update={"layers": layers})
    return spec.model_copy(update=changed) if changed else spec


def _normal(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    row: list[Entry] = []
    for entry in entries:
        for piece in _pieces(entry):
            last = row[-1] if row else None
            if isinstance(last, Layer) and isinstance(piece, Layer) and _joins(last, piece):
                row[-1] = last.model_copy(update={"repeat": last.repeat + piece.repeat})
            else:
                row.append(piece)
    return tuple(row)


def _pieces(entry: Entry) -> tuple[Entry, ...]:
    """A group without its wrapping where that says nothing: once, or of one layer with weights of its own."""
    if isinstance(entry, Layer):
        return (entry,)
    inner = _normal(entry.layers)
    if entry.repeat == 1:
        return inner
    only = inner[0] if len(inner) == 1 else None
    if entry.weights == "own" and isinstance(only, Layer) and only.weights == "own":
        return (only.model_copy(update={"repeat": entry.repeat * only.repeat}),)
    return (Group(repeat=entry.repeat, weights=entry.weights, layers=inner),)


def _joins(a: Layer, b: Layer) -> bool:
    return a.weights == "own" and a.model_copy(update={"repeat": b.repeat}) == b
