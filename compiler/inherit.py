"""From a reference to one merged mapping: the file, what it extends, and what `--set` changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from archspec.diagnostics import Diagnostic, Place
from archspec.errors import SpecError

from .compose import compose
from .grammar import TOP, Shape
from .keys import check_file, check_value, owner_name
from .meant import Around, instead
from .merge import Trace, merge, spelled_out
from .nodes import NULL, Node, Report, kind_of, show_value
from .source import Source, open_source

MAX_EXTENDS = 16
#: Facts about one model, not about those that extend it.
NEVER_INHERITED = ("name", "about", "expect")


def load(ref: str | Path, overrides: Sequence[str], report: Report, trace: Trace) -> Node:
    """The merged mapping of a spec given as a path or a zoo name."""
    key, source = open_source(ref)
    return load_source(source, key, overrides, report, trace)


def load_source(source: Source, key: str, overrides: Sequence[str], report: Report, trace: Trace) -> Node:
    """The merged mapping of a spec whose text is at hand; `key` names the file uniquely."""
    root = _inherited(source, (key,), report, trace)
    for text in overrides:
        root = _set(root, text, report)
    if overrides and not any(text.lstrip().startswith("expect") for text in overrides):
        # the totals are those of the file; what --set makes of it is another model
        root = root.with_value({k: v for k, v in root.mapping.items() if k != "expect"})
    return root


def _read(source: Source, report: Report) -> Node:
    node = compose(source, report)
    if node.value is NULL and not node.bad:
        remedy = "`archspec init` writes a spec to start from"
        raise SpecError([Diagnostic("A006", f"{source.name} says nothing", Place(source.name), remedy)])
    if not isinstance(node.value, dict):
        remedy = "begin with `archspec: 1` and `name: ...`"
        raise SpecError([Diagnostic("A016", "a spec is a mapping of keys to values", node.place, remedy)])
    return check_file(node, report)


def _inherited(source: Source, chain: tuple[str, ...], report: Report, trace: Trace) -> Node:
    root = _read(source, report)
    extends = root.get("extends")
    own = root.with_value({key: child for key, child in root.mapping.items() if key != "extends"})
    if extends is None:
        return own
    if not isinstance(extends.value, str):
        if not extends.bad:
            report.error("A021", "`extends` is a zoo name or a path", extends.place, "for example `extends: gpt2`")
        raise SpecError(report.errors)  # without its base the rest of the file means nothing
    trace.extends = True
    try:
        key, below = open_source(extends.value, source.directory, extends.place)
        if key in chain:
            message = f"{source.name} extends {extends.value}, which leads back to itself"
            raise SpecError([Diagnostic("A020", message, extends.place, "break the circle")])
        if len(chain) >= MAX_EXTENDS:
            message = f"more than {MAX_EXTENDS} specs extend one another"
            raise SpecError([Diagnostic("A020", message, extends.place, "extend an earlier one")])
        base = _inherited(below, (*chain, key), report, trace)
    except SpecError as error:
        known = [d for d in report.errors if d not in error.diagnostics]
        raise SpecError([*known, *error.diagnostics]) from None
    handed = {key: child for key, child in base.mapping.items() if key not in NEVER_INHERITED}
    if "archspec" in own.mapping:
        handed.pop("archspec", None)  # every file may state its version
    return merge(base.with_value(handed), own, TOP, trace)


# -------------------------------------------------------------------------------------------------------------- --set


def _set(root: Node, text: str, report: Report) -> Node:
    path, _, value = text.partition("=")
    path = path.strip()
    here = Place("--set", 1, 1, len(text), text)
    if not path or not value.strip():
        report.error("A022", f"{text!r} is not path=value", here, "for example `--set decoder.layers=2`")
        return root
    source = Source("--set", value, shift=len(text) - len(value))
    source.lines = text.split("\n")
    try:
        node = compose(source, report)
    except SpecError as error:
        report.errors.extend(error.diagnostics)
        return root
    if path == "extends":
        report.error("A023", "`extends` is decided before --set", here, "write a file that extends it")
        return root
    key = here._replace(length=len(path))
    return _Setting(root, tuple(path.split(".")), node.under(key), key, report).put(root, TOP, 0)


class _Setting(NamedTuple):
    """One `--set`. A reported fault leaves what is there as it is."""

    root: Node
    path: tuple[str, ...]
    value: Node
    here: Place
    report: Report

    def put(self, base: Node | None, shape: Shape, at: int) -> Node:
        """`base`, a value of this shape, with the new value merged over what stands in it at the steps of the path from `at` on."""
        if at == len(self.path):
            return merge(base, check_value(self.value, shape, self.root, self.report), shape)
        name = self.path[at]
        if name.isdecimal() and shape.item is not None:
            return self._put_item(base, shape, shape.item, at)
        base = spelled_out(base, shape) if base is not None else None
        kind = kind_of(base.get("kind")) if base is not None else None
        legal = shape.keys_of(kind)
        if name not in legal and name not in (legal := shape.keys_of()):
            present = base.mapping if base is not None else {}
            around = Around(self.root, steps=self.path[:at], rest=self.path[at + 1 :])
            remedy = instead(name, self.value, shape, kind, present, around).text
            remedy = remedy.replace("remove the line", "leave it out")
            self.report.error("A023", f"`{name}` is not a key of {owner_name(shape, kind)}", self.here, remedy)
            return base if base is not None else self.value.marked()
        child = self.put(base.get(name) if base is not None else None, legal[name], at + 1)
        if base is not None and isinstance(base.value, dict) and name in base.mapping:
            if name == "kind":
                return merge(base, Node({"kind": child}, self.value.place, self.value.key), shape)
            return base.with_value({**base.mapping, name: child})
        over = Node({name: child}, self.value.place, self.value.key)
        return over if base is None else merge(base, over, shape)

    def _put_item(self, base: Node | None, shape: Shape, item: Shape, at: int) -> Node:
        index, items = int(self.path[at]), base.value if base is not None else None
        if not isinstance(items, list) or index >= len(items):
            there = (
                f"a list of {len(items)}, counted from 0"
                if isinstance(items, list)
                else f"{show_value(items)}, not a list"
            )
            remedy = f"`{shape.name}` is {there}"
            if shape.name == "layers" and isinstance(items, int) and items > index == 0:
                remedy += _set_apart(items, self.path[at + 1 :], self.here)
            self.report.error("A023", f"there is no `{shape.name}.{index}`", self.here, remedy)
            return base if base is not None else self.value.marked()
        assert base is not None
        changed = self.put(items[index], item, at + 1)
        return base.with_value([*items[:index], changed, *items[index + 1 :]])


def _set_apart(count: int, rest: Sequence[str], here: Place) -> str:
    """How the first of `count` layers is written as an entry of its own."""
    listed = here.text[: here.length].split(".0", 1)[0]
    own = "…"
    for key in reversed(rest):
        own = f"{{{key}: {own}}}"
    others = f", {{repeat: {count - 1}}}" if count > 1 else ""
    return f"; to set the first apart: `--set '{listed}=[{own}{others}]'`"
