"""The first check of a file: every key, kind and word against the grammar, before anything is merged.

So a typo is found even in a part that an override later drops, and at the line where it stands. What is found is repaired
where the intention is plain (a misspelt key is read as its neighbour), so one mistake is one diagnostic and later checks go on.
"""

from __future__ import annotations

from archspec.diagnostics import either, listing, nearest

from .grammar import ENTRY, TOP, Shape
from .meant import KEYS, WORDS, foreign, other_section, rewritten
from .nodes import NULL, Node, Report, show_value


def check_keys(node: Node, shape: Shape, report: Report) -> Node:
    """The node as the grammar reads it; what it cannot read is reported and marked bad."""
    if node.bad:
        return node
    value = node.value
    if isinstance(value, dict):
        return _mapping(node, shape, report) if shape.owners else _wrong(node, shape, report)
    if isinstance(value, list):
        item = shape.item
        if item is None:
            return _wrong(node, shape, report)
        return node.with_value([check_keys(child, item, report) for child in value])
    if value is NULL:
        report.error("A014", f"`{shape.name}` is empty", node.head, _fill(shape))
        return node.marked()
    return _scalar(node, shape, report)


def _scalar(node: Node, shape: Shape, report: Report) -> Node:
    value = node.value
    if value == "none" and (shape.removable or "none" in shape.words):
        return node
    if shape.types and not (isinstance(value, str) and shape.words):
        # a type and a range are checked when the spec is complete, but to a literal of Python's, 1.0 and true are 1
        return _wrong(node, shape, report) if shape.name == "archspec" and type(value) is not int else node
    if not isinstance(value, str):
        return _wrong(node, shape, report)
    if shape.kinds:
        return node if value in shape.kinds else _unknown(node, "A106", f"no kind of `{shape.name}`", shape, report)
    if shape.words:
        return node if value in shape.words else _unknown(node, "A105", f"not a value of `{shape.name}`", shape, report)
    return _wrong(node, shape, report)


def _unknown(node: Node, code: str, what: str, shape: Shape, report: Report) -> Node:
    """A word that is not one of the legal ones: read as its neighbour where there is one."""
    word = str(node.value)
    legal = [*(shape.kinds or shape.words), *(["none"] if shape.removable else [])]
    meant = WORDS.get(word.lower())
    if meant not in legal and (where := other_section(meant or word, shape)) is not None:
        report.error(code, f"{word!r} is {what} here", node.place, f"{where}; legal here: {', '.join(legal)}")
        return node.marked()
    if (written := rewritten(node, shape)) is not None:
        report.error(code, f"{word!r} is {what}", node.place, written)
        return node.marked()
    guess = meant if meant in legal else nearest(word, legal)
    remedy = f"did you mean `{guess}`? Legal: {', '.join(legal)}" if guess else f"legal: {', '.join(legal)}"
    report.error(code, f"{word!r} is {what}", node.place, remedy)
    return node.with_value(guess) if guess else node.marked()


def _wrong(node: Node, shape: Shape, report: Report) -> Node:
    name = "an entry of `layers`" if shape.name == "entry" else f"`{shape.name}`"
    message = f"{name} must be {expected(shape)}, not {show_value(node.value)}"
    report.error("A103", message, node.place, rewritten(node, shape))
    return node.marked()


def expected(shape: Shape) -> str:
    """What a place wants, in words."""
    names = {int: "an integer", float: "a number", bool: "true or false", str: "text"}
    wanted = [*(names[kind] for kind in shape.types), *shape.kinds, *shape.words]
    if shape.owners:
        wanted.append("a mapping")
    if shape.item is not None:
        words = shape.item.words
        wanted.append(f"a list of {', '.join(words)}" if words else "a list")
    if shape.removable:
        wanted.append("none")
    return either(wanted)


def owner_name(shape: Shape, kind: str | None) -> str:
    """What a message calls the mapping: `attention` of kind mla, a spec, an entry of `layers`."""
    if shape.name in ("spec", "entry"):
        return {"spec": "a spec", "entry": "an entry of `layers`"}[shape.name]
    return f"`{shape.name}`" + (f" of kind {kind}" if kind and len(shape.kinds) > 1 else "")


def _fill(shape: Shape) -> str:
    if shape.removable or "none" in (*shape.kinds, *shape.words):
        return f"write `{shape.name}: none` to take it away, or remove the line"
    return "give it a value, or remove the line"


# ----------------------------------------------------------------------------------------------------------- mappings


def _mapping(node: Node, shape: Shape, report: Report) -> Node:
    entries = dict(node.mapping)
    kind = entries.get("kind")
    if kind is not None and shape.kinds:
        entries["kind"] = kind = _kind(kind, shape, report)
        if kind.bad:
            return node.marked()  # which keys it may have is not known
    name = kind.value if kind is not None and isinstance(kind.value, str) else None
    legal = shape.keys_of(name)
    _indent(entries, legal, report)
    read: dict[str, Node] = {}
    for key, child in entries.items():
        if key == "kind" and shape.kinds:
            read[key] = child
        elif key in legal:
            read[key] = check_keys(child, legal[key], report)
        else:
            meant, found = _unknown_key(key, child, shape, name, entries, report)
            read[meant] = check_keys(found, legal[meant], report) if meant in legal else found
    return node.with_value(read)


def _kind(kind: Node, shape: Shape, report: Report) -> Node:
    if not isinstance(kind.value, str):
        report.error("A106", f"the kind of `{shape.name}` is a word, not {show_value(kind.value)}", kind.place)
        return kind.marked()
    if kind.value in shape.kinds:
        return kind
    return _unknown(kind, "A106", f"no kind of `{shape.name}`", shape, report)


def _indent(entries: dict[str, Node], legal: dict[str, Shape], report: Report) -> None:
    """An empty section whose keys stand beside it, one level too high: one mistake, said once, and read as meant."""
    names = list(entries)
    for at, name in enumerate(names):
        child, section = entries.get(name), legal.get(name)
        if child is None or section is None or child.value is not NULL or child.bad or not section.owners:
            continue
        inner = section.keys_of()
        strays = []
        for stray in names[at + 1 :]:
            if stray in legal or stray not in inner:
                break
            strays.append(stray)
        if not strays:
            continue
        first = entries[strays[0]].key
        where = f" (line {first.line})" if first else ""
        remedy = f"did you mean to indent {listing(strays)}{where} under `{name}:`?"
        report.error("A014", f"`{name}` is empty", child.head, remedy)
        entries[name] = child.with_value({stray: entries.pop(stray) for stray in strays})


def _unknown_key(
    key: str, child: Node, shape: Shape, kind: str | None, present: dict[str, Node], report: Report
) -> tuple[str, Node]:
    """Report a key that is not legal here. Returns the key that was meant, or the same key and a node marked bad."""
    legal = shape.keys_of(kind or shape.default_kind)
    owner = owner_name(shape, kind)
    if shape.name == "cross_attention" and key == "position":
        message = "keys come from the other stack: there are no common positions in cross attention"
        report.error("A304", message, child.head, "remove the line")
        return key, child.marked()
    free = [name for name in legal if name not in present and name != "kind"]
    meant = KEYS.get(key.lower())
    instead = None if meant in free else foreign(key, child, shape)
    if instead is not None:
        report.error("A101", f"`{key}` is not a key of {owner}", child.head, instead[0])
        # the key that it stands for is not missed as well
        return instead[1] if instead[1] in free else key, child.marked()
    elsewhere = _elsewhere(key, child, shape, kind)
    guess = None if elsewhere else meant if meant in free else nearest(key, free)
    hint = f"did you mean `{guess}`? " if guess else elsewhere or _far(key)
    report.error("A101", f"`{key}` is not a key of {owner}", child.head, f"{hint}its keys: {', '.join(legal)}")
    if guess is not None:
        return guess, child
    before = key.partition(":")[0]  # `heads:8`
    return before if before in free else key, child.marked()


def _elsewhere(key: str, child: Node, shape: Shape, kind: str | None) -> str:
    """Where near by a key is legal that is not legal here: in another kind, or in a section below."""
    if key == "<<":
        return "there are no merge keys: use `extends`, `block` or a group of layers; "
    others = [other for other in shape.kinds if kind and key in shape.keys_of(other)]
    if others:
        return f"it is a key of {listing(others)}; "
    below = [name for name, section in shape.keys_of(kind).items() if section.owners and key in section.keys_of()]
    if isinstance(child.value, dict):  # `dropout` has a number for ffn, not a section
        below = [name for name in below if shape.keys_of(kind)[name].keys_of()[key].owners]
    if below and key not in ("kind", "norm", "bias", "scale"):
        return f"it is a key of {listing(below[:3])}: indent it under {'one of them' if below[1:] else 'that'}; "
    return _spaceless(key)


def _spaceless(key: str) -> str:
    name, colon, value = key.partition(":")
    return f"a colon needs a space after it: `{name}: {value}`; " if colon and value else ""


def _far(key: str) -> str:
    """Where else in a spec a key is legal."""
    sections = {**TOP.keys_of(), **ENTRY.keys_of()}
    found = [name for name, section in sections.items() if name != "block" and key in section.keys_of()]
    return f"it is a key of {listing(found[:3])}; " if found else ""
