"""Merging: one partial mapping over another.

1. Mapping over mapping: key by key. Anything else replaces; lists replace whole.
2. A bare word over a mapping, or a mapping over a bare word, is first read as `{kind: word}`; a bare integer window as
   `{kind: sliding, size: integer}`. `none` over anything removes it.
3. Another kind starts afresh; the same kind, or none written, merges.

What a merge did is remembered where a later diagnostic needs it (`Trace`): what started afresh, what stood over a `none`, and
which overrides changed nothing.
"""

from __future__ import annotations

from archspec.diagnostics import Place

from .grammar import Shape
from .nodes import Node, is_none, kind_of


class Trace:
    """What merging knows and validation cannot see. Keyed by the place of a mapping."""

    def __init__(self) -> None:
        self.extends = False  # the spec began from another one
        self.afresh: dict[Place, tuple[str, str]] = {}  # the kind before, the kind now
        self.over_none: dict[Place, Place] = {}  # where the `none` was said
        self.repeated: dict[Place, Node] = {}  # an override of the value that was there already
        self.absent: dict[Place, tuple[str, Node]] = {}  # a `none` over nothing, and its path


_DERIVED_IF_ABSENT = frozenset({"final_norm", "cross_attention", "latent_norm"})


def merge(base: Node | None, over: Node | None, shape: Shape, trace: Trace | None = None, path: str = "") -> Node:
    """`over` merged over `base`; at least one of them is there. With a trace, an override that changes nothing is noted."""
    if over is None:
        assert base is not None
        return base
    if base is None or base.bad or over.bad:
        if base is None and trace is not None and _removes_nothing(over, shape, path):
            trace.absent[over.place] = (path, over)
        return base if base is not None and base.bad else over
    if not shape.owners:
        _note_repeat(base, over, trace)
        return over
    return _merge_mappings(base, over, shape, trace, path)


def _merge_mappings(base: Node, over: Node, shape: Shape, trace: Trace | None, path: str) -> Node:
    lower, upper = spelled_out(base, shape), spelled_out(over, shape)
    if not isinstance(lower.value, dict) or not isinstance(upper.value, dict):
        if isinstance(upper.value, dict) and is_none(base) and trace is not None:
            trace.over_none[over.place] = base.place
        _note_repeat(base, over, trace)
        return over
    before, now = kind_of(lower) or shape.default_kind, kind_of(upper)
    if now is None and before == "none":
        if trace is not None:
            trace.over_none[over.place] = base.place
        return over
    if now is not None and before is not None and now != before:
        if trace is not None and before != "none":
            trace.afresh[over.place] = (before, now)
        return over
    if not isinstance(over.value, dict) and not isinstance(base.value, dict):
        _note_repeat(base, over, trace)
    shapes = shape.keys_of(now or before)
    merged = dict(lower.value)
    for key, child in upper.value.items():
        below = merged.get(key)
        if key == "kind" or key not in shapes:
            merged[key] = child
        else:
            merged[key] = merge(below, child, shapes[key], trace, f"{path}.{key}")
    return Node(merged, over.place, over.key)


def spelled_out(node: Node, shape: Shape) -> Node:
    """A bare word as `{kind: word}`, a bare integer window as a mapping; anything else as it is."""
    value = node.value
    if shape.kinds and isinstance(value, str) and not (value == "none" and "none" not in shape.kinds):
        return node.with_value({"kind": node.derived(value)})
    if shape.name == "window" and isinstance(value, int) and not isinstance(value, bool):
        return node.with_value({"kind": node.derived("sliding"), "size": node.derived(value)})
    return node


def _removes_nothing(over: Node, shape: Shape, path: str) -> bool:
    derived = shape.name in _DERIVED_IF_ABSENT or path.endswith(".shared.clamp")
    return shape.removable and over.value == "none" and not derived


def _note_repeat(base: Node, over: Node, trace: Trace | None) -> None:
    """Note an override that says again what was there; the same line merged again (an alias, a shared node) is not one."""
    if trace is not None and over.place != base.place and same(base, over):
        trace.repeated[over.place] = base


def same(a: Node, b: Node) -> bool:
    """Whether two nodes say the same."""
    x, y = a.value, b.value
    if isinstance(x, dict) and isinstance(y, dict):
        return x.keys() == y.keys() and all(same(x[key], y[key]) for key in x)
    if isinstance(x, list) and isinstance(y, list):
        return len(x) == len(y) and all(map(same, x, y))
    return type(x) is type(y) and x == y
