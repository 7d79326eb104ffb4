"""The first check of a file: every key, kind and word against the grammar, before anything is merged.

So a typo is found even in a part that an override later drops, and at the line where it stands. What is found is repaired
where the intention is plain (a misspelt key is read as its neighbour), so one mistake is one diagnostic and later checks go on.
"""

from __future__ import annotations

from typing import NamedTuple

from archspec.diagnostics import Diagnostic, either, listing, nearest
from archspec.errors import SpecError

from .elsewhere import GATES
from .grammar import TOP, Shape
from .meant import WORDS, Around, Hint, config_keys, instead
from .nodes import NULL, Mapping, Node, Report, show_value
from .source import importing
from .values import other_section, rewritten


class Reading(NamedTuple):
    """One reading of keys: where faults are told, what hints look at, and values that stand where they do not belong."""

    report: Report
    around: Around
    moved: list[tuple[tuple[str, ...], Node]]


def check_file(node: Node, report: Report) -> Node:
    """The mapping of a file as the grammar reads it. Raises `SpecError` where the file is the config of another tool."""
    if config := config_keys(node):
        raise SpecError([_config(node, config)])
    reading = Reading(report, Around(node, "extends" in node.mapping), [])
    read = check_keys(node, TOP, reading)
    for path, child in reading.moved:
        read = _grafted(read, path, child.marked())
    return read


def check_value(node: Node, shape: Shape, root: Node, report: Report) -> Node:
    """The value of one `--set` over a spec, as `check_file` reads a file."""
    return check_keys(node, shape, Reading(report, Around(root), []))


def _config(node: Node, config: dict[str, str]) -> Diagnostic:
    first = node.mapping[next(iter(config))].head
    shown = dict(list(config.items())[:5])
    message = f"these are the keys of a config.json, and not of a spec: {listing(shown)}"
    where = ", ".join(f"`{key}` is `{path}`" for key, path in shown.items())
    if made := importing(node.place.file):
        return Diagnostic("A017", message, first, made)
    remedy = "`archspec import FOLDER -o my.yaml` makes a spec of a checkpoint's config.json; `archspec init my.yaml` begins anew"
    return Diagnostic("A017", message, first, remedy, (f"here {where}",))


def _grafted(node: Node, path: tuple[str, ...], child: Node) -> Node:
    """The tree with a value that was meant to stand at this path, if nothing stands there: it is not missed as well."""
    entries, (key, *rest) = node.mapping, path
    if not rest:
        return node if key in entries or not isinstance(node.value, dict) else node.with_value({**entries, key: child})
    below = entries.get(key)
    return node if below is None else node.with_value({**entries, key: _grafted(below, tuple(rest), child)})


def check_keys(node: Node, shape: Shape, reading: Reading) -> Node:
    """The node as the grammar reads it; what it cannot read is reported and marked bad."""
    report = reading.report
    if node.bad:
        return node
    value = node.value
    if isinstance(value, dict):
        return _mapping(node, shape, reading) if shape.owners else _wrong(node, shape, report)
    if isinstance(value, list):
        item = shape.item
        if item is None:
            return _wrong(node, shape, report)
        return node.with_value([check_keys(child, item, reading) for child in value])
    if value is NULL:
        report.error("A014", f"`{shape.name}` is empty", node.head, _fill(shape))
        return node.marked()
    return _scalar(node, shape, reading)


def _scalar(node: Node, shape: Shape, reading: Reading) -> Node:
    value, report = node.value, reading.report
    if value == "none" and (shape.removable or "none" in shape.words):
        return node
    if isinstance(value, str) and value.lower() in GATES and "gated" in shape.kinds:
        return _mapping(node.with_value({"kind": node}), shape, reading)
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
    if (activation := GATES.get(word.lower())) is not None and (activation in legal or "gated" in legal):
        means = activation if activation in legal else "gated"
        report.error(code, f"{word!r} is {what}", node.place, f"write `activation: {activation}` beside `kind: gated`")
        return node.with_value(means)
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
    text = "a quotient" if {float, str} <= set(shape.types) else "text"
    names = {int: "an integer", float: "a number", bool: "true or false", str: text}
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


def _mapping(node: Node, shape: Shape, reading: Reading) -> Node:
    entries, report = dict(node.mapping), reading.report
    kind = entries.get("kind")
    if kind is not None and shape.kinds:
        gate = isinstance(kind.value, str) and kind.value.lower() in GATES and "gated" in shape.kinds
        entries["kind"] = kind = _gate(entries, kind, shape, report) if gate else _kind(kind, shape, report)
        if kind.bad:
            return node.marked()  # which keys it may have is not known
    name = kind.value if kind is not None and isinstance(kind.value, str) else None
    legal = shape.keys_of(name)
    _indent(entries, legal, report)
    read: dict[str, Node] = {}
    inside: list[tuple[tuple[str, ...], Node]] = []
    for key, child in entries.items():
        if key == "kind" and shape.kinds:
            read[key] = child
        elif key in legal:
            read[key] = check_keys(child, legal[key], reading)
        else:
            hint, found = _unknown_key(key, child, shape, name, entries, reading)
            read[hint.key or key] = check_keys(found, legal[hint.key], reading) if hint.key in legal else found
            inside += [(hint.path, found)] if hint.inside and not hint.key else []
    whole = node.with_value(read)
    for path, child in inside:
        whole = _grafted(whole, path, child)
    return whole


def _gate(entries: Mapping, kind: Node, shape: Shape, report: Report) -> Node:
    """`kind: swiglu` says the kind and the activation, which is then not missed as well."""
    activation = GATES[str(kind.value).lower()]
    also = "" if "activation" in entries else f", activation: {activation}"
    report.error("A106", f"{kind.value!r} is no kind of `{shape.name}`", kind.place, f"write `kind: gated{also}`")
    entries.setdefault("activation", kind.derived(activation))
    return kind.with_value("gated")


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
    key: str, child: Node, shape: Shape, kind: str | None, present: Mapping, reading: Reading
) -> tuple[Hint, Node]:
    """Report a key that is not legal here. Returns what was meant, and the node, marked bad where it is not that."""
    if shape.name == "cross_attention" and key == "position":
        message = "keys come from the other stack: there are no common positions in cross attention"
        reading.report.error("A304", message, child.head, "remove the line")
        return Hint(""), child.marked()
    hint = instead(key, child, shape, kind, present, reading.around)
    reading.report.error("A101", f"`{key}` is not a key of {owner_name(shape, kind)}", child.head, hint.text)
    if hint.path and not hint.inside:
        reading.moved.append((hint.path, child))
    return hint, child if hint.read else child.marked()
