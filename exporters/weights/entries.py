"""Layers, one description each → what a spec says of them: the part they share, once, and the shortest list of entries.

What most layers say stands in the stack; an entry says only how it differs. A repeating pattern becomes a group, with the
layers before and after it beside.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from archspec.compiler.grammar import Shape, keys_of

Block = dict[str, Any]


def stacked(layers: Sequence[Block]) -> dict[str, Any]:
    """The keys of a stack whose layers these are, first to last."""
    shared, rows = hoisted(layers)
    entries = shortest(rows)
    only = entries[0] if len(entries) == 1 else {}
    depth = only["repeat"] if set(only) == {"repeat"} else entries
    return {**shared, "layers": depth}


def hoisted(blocks: Sequence[Block]) -> tuple[Block, list[Block]]:
    """What most of these blocks say, once, and what each says over it."""
    shared: Block = {}
    rows: list[Block] = [{} for _ in blocks]
    for key, shape in keys_of("block").items():
        values = [block.get(key) for block in blocks]
        if any(value is not None for value in values):
            _put(key, _hoisted(shape, values, None), shared, rows)
    return _short(shared), [_short(row) for row in rows]


def _put(key: str, split: tuple[Any, list[Any]], shared: Block, rows: list[Block]) -> None:
    common, overrides = split
    if common is not None:
        shared[key] = common
    for row, own in zip(rows, overrides, strict=True):
        if own is not None:
            row[key] = own


def _hoisted(shape: Shape, values: list[Any], default: Any) -> tuple[Any, list[Any]]:
    """What the layers have in common under one key, and what each says over it (None: nothing)."""
    values = [_spelled(shape, default if value is None else value) for value in values]
    base = json.loads(Counter(json.dumps(value) for value in values).most_common(1)[0][0])
    if None in values and (base is None or not shape.removable or _tied(values)):
        return None, values
    if isinstance(base, dict):
        kind = _kind(shape, base)
        alike = [i for i, value in enumerate(values) if isinstance(value, dict) and _kind(shape, value) == kind]
        common, rows = _hoisted_keys(shape, kind, [values[i] for i in alike])
        overrides = ["none" if value is None else value for value in values]
        for i, row in zip(alike, rows, strict=True):
            overrides[i] = row or None
        return common, overrides
    return base, [None if value == base else "none" if value is None else value for value in values]


def _hoisted_keys(shape: Shape, kind: str | None, values: list[Block]) -> tuple[Block, list[Block]]:
    """The same, key by key, of mappings of one kind."""
    owner = shape.owners.get(kind or "")  # none where the kind is inherited: a norm's eps alone
    fields = {} if owner is None or isinstance(owner, str) else owner.model_fields
    common: Block = {}
    rows: list[Block] = [{} for _ in values]
    shapes = shape.keys_of(kind)
    for key in dict.fromkeys(key for value in values for key in value):
        default = fields[key].default if key in fields else None
        plain = isinstance(default, int | float | str) and not shapes[key].kinds
        _put(key, _hoisted(shapes[key], [v.get(key) for v in values], default if plain else None), common, rows)
        if plain and common.get(key) == default and key != "kind":
            del common[key]
    return common, rows


def _tied(values: list[Any]) -> bool:
    return 2 * sum(value is None for value in values) >= len(values)


def _kind(shape: Shape, value: Block) -> str | None:
    return value.get("kind", shape.default_kind)


def _spelled(shape: Shape, value: Any) -> Any:
    """`rope` as {kind: rope}."""
    return {"kind": value} if isinstance(value, str) and value in shape.kinds and value != "none" else value


def _short(value: Any) -> Any:
    """{kind: rope} as `rope`, everywhere inside."""
    if isinstance(value, dict):
        inner = {key: _short(part) for key, part in value.items()}
        return inner["kind"] if set(inner) == {"kind"} else inner
    return value


# -------------------------------------------------------------------------------------------------------------- runs


def shortest(rows: Sequence[Block]) -> list[Block]:
    """The fewest entries that say these rows in order: runs, or one repeated group with what stands before and after it."""
    texts = [json.dumps(row, sort_keys=True) for row in rows]
    best = list(_runs(rows, texts, 0, len(rows)))
    for start, size, turns in _groups(texts):
        stop = start + size * turns
        before, after = _runs(rows, texts, 0, start), _runs(rows, texts, stop, len(rows))
        inner = list(_runs(rows, texts, start, start + size))
        found = [*before, {"repeat": turns, "layers": inner}, *after]
        if len(found) + len(inner) < _cost(best):
            best = found
    return best


def _cost(entries: Sequence[Block]) -> int:
    return sum(1 + len(entry.get("layers", ())) for entry in entries)


def _groups(texts: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """(first layer, layers in a turn, turns) of everything that repeats at least twice."""
    n = len(texts)
    for size in range(2, n // 2 + 1):
        same = 0  # layers in a row that are equal to the one `size` before
        for i in range(size, n + 1):
            if i < n and texts[i] == texts[i - size]:
                same += 1
                continue
            for shift in range(min(size, same) if same >= size else 0):
                turns = (same - shift) // size + 1
                if turns > 1:
                    yield i - size - same + shift, size, turns
            same = 0


def _runs(rows: Sequence[Block], texts: Sequence[str], start: int, stop: int) -> Iterator[Block]:
    """Equal neighbours as one entry."""
    i = start
    while i < stop:
        j = i
        while j < stop and texts[j] == texts[i]:
            j += 1
        repeat = {"repeat": j - i} if j - i > 1 or not rows[i] else {}
        yield {**repeat, **rows[i]}
        i = j
