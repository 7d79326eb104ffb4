"""Which key the author of a faulty spec most likely meant: one of another place, or of another tool.

Nothing here reports. It answers what to write instead, for the checks that do; the names themselves are in `elsewhere`.
"""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote
from typing import NamedTuple, TypeVar

from archspec.diagnostics import listing, nearest

from . import elsewhere
from .elsewhere import GATES, PLACES
from .grammar import ENTRY, TOP, Shape, keys_of
from .merge import spelled_out
from .nodes import Mapping, Node, kind_of

T = TypeVar("T")


class Around(NamedTuple):
    """What a hint needs to know of the spec around a key.

    `root`: what the spec says already. `extends`: it inherits more than that. With `--set`, `steps` is the path of the mapping that
    lacks the key, and `rest` what follows the key.
    """

    root: Node
    extends: bool = False
    steps: tuple[str, ...] | None = None
    rest: tuple[str, ...] = ()


class Hint(NamedTuple):
    """What to write instead of a key.

    `key`: the key of the same mapping that it stands for, if one; `read`: its value means the same under that key.
    `path`: the place that it stands for, if that is another mapping: from the same one (`inside`), or from the top.
    """

    text: str
    key: str = ""
    read: bool = False
    path: tuple[str, ...] = ()
    inside: bool = False


class Step(NamedTuple):
    """One step of a path in the tables, and the kind that the mapping there must have."""

    key: str
    kind: str | None = None


Path = tuple[Step, ...]


def _path(text: str) -> Path:
    return tuple(Step(part.partition("[")[0], part.partition("[")[2].rstrip("]") or None) for part in text.split("."))


def by_name(table: dict[str, T]) -> dict[str, T]:
    """A table by each of the names that one of its keys holds."""
    return {name: text for names, text in table.items() for name in names.split()}


WORDS = {name: word for word, names in elsewhere.WORDS.items() for name in names.split()}
_SAID, _VALUES, _REASONS = by_name(elsewhere.SAID), by_name(elsewhere.VALUES), by_name(elsewhere.REASONS)
_FOUND: dict[str, list[Path]] = {}
for _text, _names in PLACES.items():
    for _name in _names.split():
        _FOUND.setdefault(_name, []).append(_path(_text))

#: Sections that have the keys of another.
_LIKE = {"cross_attention": "attention", "expert": "ffn", "shared": "ffn", "encoder": "block", "decoder": "block"}
_EXPERT = keys_of(keys_of("block")["ffn"].owners["moe"])["expert"]


def section(shape: Shape) -> str:
    """What the tables call a mapping."""
    if "rmsnorm" in shape.kinds:
        return "norm"
    return "block" if shape.name == "entry" else _LIKE.get(shape.name, shape.name)


def _parent(path: Path) -> str:
    """The mapping in which the last key of a path stands."""
    return path[-2].key if len(path) > 1 else "spec" if path[0].key in TOP.keys_of() else "block"


# --------------------------------------------------------------------------------------------------------------- keys


def instead(key: str, child: Node, shape: Shape, kind: str | None, present: Mapping, around: Around) -> Hint:
    """What to write for a key that a mapping of this shape and kind, with these entries, does not have."""
    legal = shape.keys_of(kind or shape.default_kind)
    if not legal:
        return Hint("it has no keys")
    part, word = section(shape), key.lower().replace("-", "_")
    for name in (f"{shape.name}.{word}", f"{part}.{word}", word):
        if name in _SAID:
            return Hint(_SAID[name])
        paths = _FOUND.get(name, [])
        for path in paths:
            if path[-1].key in legal and part in (parent := _parent(path), _LIKE.get(parent)):
                return _renamed(name, path[-1].key, child, legal, present, around)
        if paths:
            return _moved(paths, name, child, shape, present, around)
    if shape.name == "shared" and any(key in keys_of(owner) for owner in _EXPERT.owners.values()):
        return Hint(f"its `{key}` is that of `expert`: remove the line")
    keys = f"its keys: {', '.join(legal)}"
    if (hint := _own(key, child, shape, kind, present, around, keys)) is not None:
        return hint
    free = [name for name in legal if (name not in present or around.steps is not None) and name != "kind"]
    before, colon, value = key.partition(":")
    if colon and value:
        text = f"a colon needs a space after it: `{before}: {value}`; {keys}"
        return Hint(text, before if before in free else "")
    guess = nearest(key, free)
    return Hint(f"did you mean `{guess}`? {keys}", guess, read=True) if guess else Hint(keys)


def _renamed(name: str, key: str, child: Node, legal: dict[str, Shape], present: Mapping, around: Around) -> Hint:
    """Another name of a key of this mapping."""
    value, reason = _value(name, child, legal[key], present, around), _REASONS.get(name)
    if value is None:
        return Hint("remove the line")
    if key in present or name in _VALUES:
        own = "" if key in present else key
        return Hint(_written((key,), value, around, around.steps or ()) + (f"; {reason}" if reason else ""), own)
    return Hint(f"did you mean `{key}`?" + (f" {reason}" if reason else ""), key, read=True)


def _value(name: str, child: Node, shape: Shape | None, present: Mapping, around: Around) -> str | None:
    """A value as it is written under the right key; None where it says nothing there."""
    text, meant = _shown(child, around), _VALUES.get(name, "{}")
    if isinstance(meant, dict):
        return meant.get(text.lower())
    if name in elsewhere.SHARED:
        each = present["expert"].whole("width") if "expert" in present else None
        return str(child.value * each) if each and isinstance(child.value, int) else "…"
    if shape is not None and text not in shape.words and (word := WORDS.get(text) or GATES.get(text)) in shape.words:
        text = str(word)
    return meant.format(text)


def _shown(child: Node, around: Around) -> str:
    """A value as it was written, where it is short."""
    if around.steps is not None:
        return child.place.text.partition("=")[2].strip()
    start = child.place.column - 1
    short = not isinstance(child.value, dict | list) and child.place.length <= 20
    return child.place.text[start : start + child.place.length] if short else "…"


def _written(keys: tuple[str, ...], value: str, around: Around, before: tuple[str, ...]) -> str:
    if around.steps is None:
        return f"write `{keys[-1]}: {value}`"
    return f"write `--set {quote('.'.join((*before, *keys)) + '=' + value)}`"


# ------------------------------------------------------------------------------------------------------ other mappings


class _Spot(NamedTuple):
    """How far a path leads into the spec as it is: the mapping that it reaches, and the steps that are left."""

    walked: tuple[str, ...]
    shapes: dict[str, Shape]
    left: Path
    kind: str | None  # of the mapping at the first step that is left
    start: str  # "here", "top" or "stack"


def _moved(paths: Iterable[Path], name: str, child: Node, shape: Shape, present: Mapping, around: Around) -> Hint:
    """A key that stands for one of another mapping: of these paths, the one of which the spec has most."""
    longer = [(*path, *map(Step, around.rest)) for path in paths]
    spot = min((_reached(path, shape, present, around) for path in longer), key=lambda spot: len(spot.left))
    last = spot.shapes
    for step in spot.left[:-1]:
        last = last[step.key].keys_of(step.kind) if step.key in last else {}
    value = _value(name, child, last.get(spot.left[-1].key), present, around)
    if value is None:
        return Hint("remove the line")
    key, text = spot.left[0].key, _nested(spot.left, value, spot.shapes, spot.kind, around.extends)
    reason = f"; {_REASONS[name]}" if name in _REASONS else ""
    if around.steps is not None:
        return Hint(_written(*_dotted((*spot.walked, key), spot, value), around, ()) + reason)
    where = "" if spot.start == "here" else " at the top of the spec"
    if spot.walked:
        where = f" under `{spot.walked[-1]}:`"
    elif spot.start == "stack":
        where = " under `decoder:` or `encoder:`"
    own = key if spot.start == "here" and not spot.walked and key not in present else ""
    path = (*spot.walked, *(step.key for step in spot.left))
    return Hint(f"{_written((key,), text, around, ())}{where}{reason}", own, path=path, inside=spot.start == "here")


def _dotted(keys: tuple[str, ...], spot: _Spot, value: str) -> tuple[tuple[str, ...], str]:
    """A path as far as its mappings need nothing but the next key, and the value from there on."""
    left, shapes, kind = spot.left, spot.shapes, spot.kind
    while True:
        text = _nested(left, value, shapes, kind, False)
        if len(left) == 1 or left[0].key not in shapes:
            return keys, text
        shapes = shapes[left[0].key].keys_of(left[0].kind)
        if text != f"{{{left[1].key}: {_nested(left[1:], value, shapes, None, False)}}}":
            return keys, text
        left, kind, keys = left[1:], None, (*keys, left[1].key)


def _reached(path: Path, shape: Shape, present: Mapping, around: Around) -> _Spot:
    """Go down a path from the mapping at hand if it passes through that, from the top or the stack if not."""
    here = "block" if shape.name in ("entry", "encoder", "decoder") else shape.name
    for at in range(len(path)):
        kind = kind_of(present.get("kind")) or shape.default_kind
        if _parent(path[: at + 1]) == here and path[at].key in shape.keys_of(kind):
            return _descend(present, shape.keys_of(kind), path[at:], around.steps or (), "here", around)
    if _parent(path[:1]) == "spec":
        return _descend(around.root.mapping, TOP.keys_of(), path, (), "top", around)
    stacks = [name for name in ("block", "decoder", "encoder") if isinstance(around.root.mapping.get(name), Node)]
    if not stacks:
        return _Spot((), ENTRY.keys_of(), path, None, "stack")
    return _descend(around.root.mapping, TOP.keys_of(), (Step(stacks[0]), *path), (), "stack", around)


def _descend(
    entries: Mapping, shapes: dict[str, Shape], path: Path, walked: tuple[str, ...], start: str, around: Around
) -> _Spot:
    kind = None
    while len(path) > 1 and (child := entries.get(path[0].key)) is not None and path[0].key in shapes and not child.bad:
        shape = shapes[path[0].key]
        node = spelled_out(child, shape)
        have = kind_of(node) or shape.default_kind
        if not isinstance(node.value, dict) or path[1].key not in shape.keys_of(have):
            break
        if not isinstance(child.value, dict) and around.steps is None:
            kind = have  # a word becomes a mapping of its kind
            break
        entries, shapes, walked, path = node.value, shape.keys_of(have), (*walked, path[0].key), path[1:]
    return _Spot(walked, shapes, path, kind, start)


def _nested(path: Path, value: str, shapes: dict[str, Shape], kind: str | None, extends: bool) -> str:
    """The value of the first key of a path: mappings around the value, each with its kind and what it cannot do without."""
    if len(path) == 1 or path[0].key not in shapes:
        return value
    shape, inner = shapes[path[0].key], path[1].key
    owners = {name: owner for name, owner in shape.owners.items() if inner in keys_of(owner)}
    kind = kind or path[0].kind or (next(iter(owners)) if len(owners) == 1 else None) or shape.default_kind
    inherited = extends and len(owners) > 1
    owners = {name: owner for name, owner in owners.items() if kind in (None, name)}
    parts = [f"kind: {kind or '…'}"] if shape.kinds and kind != (shape.default_kind or "") and not inherited else []
    parts.append(f"{inner}: {_nested(path[1:], value, shape.keys_of(kind), None, extends)}")
    if not extends:
        needed = [{*_required(owner)} for owner in owners.values()]
        parts += [
            f"{key}: …" for key in shape.keys_of(kind) if key != inner and needed and key in set.intersection(*needed)
        ]
    return "{" + ", ".join(parts) + "}"


def _required(owner: object) -> Iterable[str]:
    """The keys without which a mapping is not complete; norms are the block's."""
    fields = {} if isinstance(owner, str) else owner.model_fields  # type: ignore[attr-defined]
    return (name for name, info in fields.items() if info.is_required() and name != "norm")


# ------------------------------------------------------------------------------------------------------------ own keys


def _own(
    key: str, child: Node, shape: Shape, kind: str | None, present: Mapping, around: Around, keys: str
) -> Hint | None:
    """A key of the language, in another kind, in a section below, or elsewhere."""
    if key == "<<":
        return Hint(f"there are no merge keys: use `extends`, `block` or a group of layers; {keys}")
    others = [other for other in shape.kinds if kind and key in shape.keys_of(other)]
    if others:
        return Hint(f"it is a key of {listing(others)}; {keys}")
    below = _below(key, child, shape, kind)
    if around.steps is not None and len(below) == 1:
        return Hint(_written((*around.steps, below[0], key, *around.rest), _shown(child, around), around, ()))
    if around.steps is None and below:
        where = "one of them" if below[1:] else "that"
        return Hint(f"it is a key of {listing(below[:3])}: indent it under {where}; {keys}")
    homes: list[Path] = [(Step(key),)] if key in TOP.keys_of() or key in ENTRY.keys_of() else []
    for name, section in {**TOP.keys_of(), **ENTRY.keys_of()}.items():
        if name not in ("block", "encoder", "decoder", "cross_attention", "layers") and key in section.keys_of():
            homes.append((Step(name), Step(key)))
    mapping = isinstance(child.value, dict) or bool(around.rest)
    homes = [path for path in homes if _holds(path, mapping)] or homes
    if len(homes) == 1:
        return _moved(homes, key, child, shape, present, around)
    names = [path[0].key for path in homes if len(path) > 1]
    return Hint(f"it is a key of {listing(names[:3])}; {keys}") if names else None


def _holds(path: Path, mapping: bool) -> bool:
    """Whether a mapping, or a plain value, may stand at a path of one or two steps."""
    shape = {**TOP.keys_of(), **ENTRY.keys_of()}[path[0].key]
    shape = shape.keys_of()[path[1].key] if len(path) > 1 else shape
    return bool(shape.owners) if mapping else bool(shape.types or shape.words or shape.kinds)


def _below(key: str, child: Node, shape: Shape, kind: str | None) -> list[str]:
    """The sections of this mapping that have such a key."""
    if key in ("kind", "norm", "bias", "scale"):
        return []
    sections = {name: section for name, section in shape.keys_of(kind).items() if section.owners}
    below = [name for name, section in sections.items() if key in section.keys_of()]
    if isinstance(child.value, dict):  # `dropout` has a number for ffn, not a section
        below = [name for name in below if sections[name].keys_of()[key].owners]
    return below


def config_keys(node: Node) -> dict[str, str]:
    """The keys at the top of a file that are those of a config.json, each with where it goes; none if the file is a spec."""
    entries, legal = node.mapping, TOP.keys_of()
    if any(name in entries for name in ("extends", "block", "encoder", "decoder")):
        return {}
    found = {}
    for key in entries:
        if key in _FOUND and key not in legal:
            path = _FOUND[key][0]
            found[key] = ".".join(
                (*(("decoder",) if _parent(path[:1]) == "block" else ()), *(step.key for step in path))
            )
    return found if len(found) >= 3 else {}
