"""A spec with faults in its form, made whole enough that what is sound in it can still be checked.

So a misspelt activation in one layer does not hide an impossible head count in another: all errors of a file at once.
What was cut out is tainted, and no check speaks of it.
"""

from __future__ import annotations

from .grammar import BLOCK_KEYS
from .nodes import Node
from .places import Path

_CUT_OUT = frozenset({"attention", "cross_attention", "ffn", "parallel"})
_OPTIONAL = frozenset({"about", "embedding", "dtype", "dropout", "init", "expect", "final_norm"})
_STAND_IN: dict[str, int | str] = {"archspec": 1, "name": "unnamed", "vocab_size": 1, "head": "none"}


def repair(root: Node, faults: set[Path], strangers: set[Path]) -> tuple[Node, frozenset[Path]] | None:
    """The tree without its faults, and the paths that no check may speak of; None where too much hangs on what is wrong.

    `strangers` are the paths of keys that the language does not have: only they are taken out.
    """
    tainted: set[Path] = set()
    for path in strangers:
        root = _replaced(root, path)
        tainted.update([_taint(path)] if len(path) > 1 else [])
    for path in faults:
        cut = _cut(path)
        if cut is None:
            return None
        tainted.add(_taint(cut))
        root = _replaced(root, cut)
    return root, frozenset(tainted)


def _taint(path: Path) -> Path:
    """The whole layer around a path inside one, the section of the spec around another."""
    inside = [at for at, step in enumerate(path) if isinstance(step, int)]
    return path[: inside[-1] + 1] if inside else path[:1]


def _cut(path: Path) -> Path | None:
    """The smallest part around a fault that a spec can do without."""
    for at in range(len(path) - 1, -1, -1):
        step = path[at]
        inside = at > 0 and isinstance(path[at - 1], int)  # a key of a layer or a group
        if (inside and step in BLOCK_KEYS and step != "norm") or step == "final_norm":
            return path[: at + 1]
        if at == 0 and (step in _OPTIONAL or step in _STAND_IN):
            return path[:1]
    return None


def _replaced(node: Node, path: Path) -> Node:
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        items = node.value
        if not isinstance(items, list) or step >= len(items):
            return node
        return node.with_value([*items[:step], _replaced(items[step], rest), *items[step + 1 :]])
    entries = dict(node.mapping)
    if rest:
        if step in entries:
            entries[step] = _replaced(entries[step], rest)
        return node.with_value(entries)
    if step in _CUT_OUT:
        entries[step] = Node("none", node.place)
    elif step in _STAND_IN:
        entries[step] = Node(_STAND_IN[step], node.place)
    else:
        entries.pop(step, None)
    return node.with_value(entries)
