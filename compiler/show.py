"""A resolved spec as text: YAML with every default and derived value in it, or its layers by index.

`show` is a spec again, and resolving it gives the same: one entry per run of equal layers, what all layers share beside `layers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from archspec.language.base import Node as Model
from archspec.language.model import Entry, Group, Layer, Spec, Stack, depth_of

from .grammar import BLOCK_KEYS, keys_of
from .indices import indices
from .scalars import AmbiguousError, resolve_plain

_WIDTH = 100
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./()+- ")
_MOST_RUNS = 2000


def show(spec: Spec) -> str:
    """The spec as YAML, complete."""
    return written_out(spec_mapping(spec))


def spec_mapping(spec: Spec) -> dict[str, Any]:
    """The complete spec as plain data."""
    entries = mapping_of(spec)
    for name, stack in spec.stacks().items():
        entries[name] = stack_mapping(stack, name == "decoder" and spec.encoder is not None)
    return entries


def written_out(entries: dict[str, Any]) -> str:
    """Plain mappings, lists and values as YAML, in the layout of specs."""
    return "".join(f"{line}\n" for line in _block(entries, 0))


def mapping_of(model: Model) -> dict[str, Any]:
    """A construct as a mapping, its kind first; `none` where an optional part is absent, nothing where it may not be said."""
    shapes = keys_of(type(model))
    found: dict[str, Any] = {"kind": ""} if "kind" in shapes else {}
    for name in shapes:
        value = getattr(model, name)
        if value is not None:
            found[name] = _value(value)
        elif shapes[name].removable:
            found[name] = "none"
    return found


def _value(value: Any) -> Any:
    if isinstance(value, Model):
        plain = mapping_of(value)
        return "none" if plain == {"kind": "none"} else plain
    return [_value(item) for item in value] if isinstance(value, tuple) else value


# -------------------------------------------------------------------------------------------------------------- stacks


def stack_mapping(stack: Stack, crosses: bool) -> dict[str, Any]:
    """`layers` and what all layers share; an entry holds only what differs. Only a stack that crosses to another says how."""
    layers = [layer_mapping(layer) for layer in _leaves(stack.layers)]
    keys = [key for key in BLOCK_KEYS if crosses or key != "cross_attention"]
    shared = {key: common for key in keys if (common := _common([layer[key] for layer in layers])) is not None}
    only = stack.layers[0]
    single = len(stack.layers) == 1 and isinstance(only, Layer) and only.weights == "own"
    rows: Any = only.repeat if single else [_entry(entry, shared, keys) for entry in stack.layers]
    return {"layers": rows, "final_norm": "none" if stack.final_norm is None else _value(stack.final_norm), **shared}


def _leaves(entries: tuple[Entry, ...]) -> Iterator[Layer]:
    for entry in entries:
        if isinstance(entry, Group):
            yield from _leaves(entry.layers)
        else:
            yield entry


def layer_mapping(layer: Layer) -> dict[str, Any]:
    found = {key: value for key, value in mapping_of(layer).items() if key in BLOCK_KEYS}
    for name in ("attention", "cross_attention", "ffn"):
        part = found[name]
        if isinstance(part, dict) and "placement" in part:  # where the norms stand is said first
            found[name] = {"kind": part.pop("kind"), **part}
    return found


def _common(values: list[Any]) -> Any:
    """What all layers say under one key: the whole, or the part on which mappings of one kind agree; None for nothing."""
    first = values[0]
    if all(value == first for value in values):
        return first
    if not all(isinstance(value, dict) and value.get("kind") == first.get("kind") for value in values):
        return None
    parts = {key: _common([value.get(key) for value in values]) for key in first}
    return {key: part for key, part in parts.items() if part is not None} or None


def _entry(entry: Entry, shared: dict[str, Any], keys: list[str]) -> dict[str, Any]:
    head: dict[str, Any] = {"repeat": entry.repeat}
    if entry.weights == "shared":
        head["weights"] = "shared"
    if isinstance(entry, Group):
        return {**head, "layers": [_entry(inner, shared, keys) for inner in entry.layers]}
    return {**head, **_own(layer_mapping(entry), shared, keys)}


def _own(value: dict[str, Any], shared: dict[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """What a layer says that not all layers say."""
    own: dict[str, Any] = {}
    for key in keys:
        part, common = value[key], shared.get(key)
        if part != common:
            own[key] = _own(part, common, part) if isinstance(part, dict) and isinstance(common, dict) else part
    return own


# ---------------------------------------------------------------------------------------------------------------- text


def _block(entries: dict[str, Any], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for key, value in entries.items():
        flow = f"{indent}{key}: {inline(value)}"
        if not isinstance(value, dict | list) or not value or len(flow) <= _WIDTH:
            yield flow
        elif isinstance(value, dict):
            yield f"{indent}{key}:"
            yield from _block(value, depth + 1)
        else:
            yield f"{indent}{key}:"
            yield from _items(value, depth + 1)


def _items(items: list[Any], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for item in items:
        flow = f"{indent}- {inline(item)}"
        if not isinstance(item, dict) or len(flow) <= _WIDTH:
            yield flow
            continue
        lines = list(_block(item, depth + 1))
        yield f"{indent}- {lines[0].lstrip()}"
        yield from lines[1:]


def inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {inline(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(inline(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return _text(value) if isinstance(value, str) else repr(value).replace("e-0", "e-")


def _text(text: str) -> str:
    """The text as YAML reads it back: bare where it can be, in double quotes otherwise."""
    if text and set(text) <= _PLAIN and text == text.strip() and text[0] not in "-":
        try:
            if resolve_plain(text) == text:
                return text
        except AmbiguousError:
            pass
    from json import dumps  # a JSON string is a YAML string, once what does not print is spelt as YAML does

    quoted = dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)


# -------------------------------------------------------------------------------------------------------------- layers


def show_layers(spec: Spec) -> str:
    """The layers of each stack by index, counted from 0: those that are equal on one line, with what sets them apart."""
    lines: list[str] = []
    for name, stack in spec.stacks().items():
        lines += _by_index(name, stack, name == "decoder" and spec.encoder is not None)
    return "".join(f"{line}\n" for line in lines)


def _by_index(name: str, stack: Stack, crosses: bool) -> list[str]:
    described = stack_mapping(stack, crosses)
    keys = [key for key in BLOCK_KEYS if crosses or key != "cross_attention"]
    found: dict[str, list[range]] = {}
    shown = 0
    for span, layer in islice(_spans(stack.layers, 0), _MOST_RUNS):
        own = inline(_apart(layer, layer_mapping(layer), described, keys))[1:-1]
        found.setdefault(own or "all equal" if layer.weights == "own" else f"{own} weights: shared".strip(), []).append(
            span
        )
        shown = span.stop
    depth = depth_of(stack.layers)
    head = f"{name}: {depth} layers" + (f", of them the first {shown}" if shown < depth else "")
    width = max(len(indices(spans)) for spans in found.values())
    return [head, *(f"  {indices(spans):<{width}}  {what}" for what, spans in found.items())]


def _apart(model: Model, value: dict[str, Any], shared: dict[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """What sets a layer apart. Of a part that is another altogether, defaults are left out."""
    found: dict[str, Any] = {}
    for key in keys:
        part, common, inner = value[key], shared.get(key), getattr(model, key)
        if part != common:
            nested = isinstance(part, dict) and isinstance(common, dict)
            found[key] = _apart(inner, part, common or {}, part) if nested else brief(inner, part)
    return found


def brief(model: Any, value: Any) -> Any:
    """A construct without the keys that are at their defaults."""
    if not isinstance(value, dict):
        return value
    fields = type(model).model_fields
    said = [key for key in value if key == "kind" or getattr(model, key) != fields[key].default]
    return {key: brief(getattr(model, key), value[key]) for key in said}


def _spans(entries: tuple[Entry, ...], start: int) -> Iterator[tuple[range, Layer]]:
    for entry in entries:
        if isinstance(entry, Layer):
            yield range(start, start + entry.repeat), entry
            start += entry.repeat
            continue
        row = depth_of(entry.layers)
        for turn in range(entry.repeat):
            yield from _spans(entry.layers, start + turn * row)
        start += entry.repeat * row
