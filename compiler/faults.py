"""What pydantic found wrong with the form of a complete spec, as located diagnostics: one mistake, one diagnostic."""

from __future__ import annotations

from typing import Any

from archspec.diagnostics import Place, listing, nearest

from .elsewhere import MISSING
from .grammar import TOP, Shape
from .keys import expected, owner_name
from .meant import Around, instead
from .merge import Trace
from .nodes import Node, Report, show_value
from .places import Path
from .source import name_like
from .values import rewritten


class Translation:
    """One reading of pydantic's errors. `faults` are the paths at fault, known or new, `strangers` unknown keys."""

    def __init__(self, root: Node, report: Report, trace: Trace) -> None:
        self.root, self.report, self.trace = root, report, trace
        self.faults: set[Path] = set()
        self.strangers: set[Path] = set()
        self.missing: dict[Place, tuple[Node, Shape, list[str]]] = {}

    def tell(self, errors: list[Any]) -> None:
        """One diagnostic a mistake: the same line merged into many layers is told once, missing keys of one mapping together."""
        for error in errors:
            node, shape, last, known = self.locate(error["loc"], error["type"] == "extra_forbidden")
            # a norm that is missing inside is the model's: it is told there
            if known or (error["type"] == "missing" and last == "norm" and node is not self.root):
                continue
            if error["type"] == "missing":
                _, _, keys = self.missing.setdefault(node.head, (node, shape, []))
                if last not in keys:
                    keys.append(last)
            elif error["type"] == "extra_forbidden":
                child, kind = node.mapping[last], _kind(node) or shape.default_kind
                remedy = instead(last, child, shape, kind, node.mapping, Around(self.root)).text
                self.report.error("A101", f"`{last}` is not a key of {_owner(node, shape)}", child.head, remedy)
            else:
                self.value(error, node, shape)
        for place, (node, shape, keys) in self.missing.items():
            self.lacking(place, node, shape, keys)

    def locate(self, loc: tuple[int | str, ...], strange: bool) -> tuple[Node, Shape, str, bool]:
        """The node a location means, its shape, the last key (a missing or an unknown one), and whether it is reported already.

        pydantic puts the tags of unions into a location; a step that is no key and no index is such a tag.
        """
        node, shape = self.root, TOP
        path: list[str | int] = []
        for at, step in enumerate(loc):
            keys = shape.keys_of(_kind(node))
            if node.bad:
                break
            if isinstance(step, int) and isinstance(node.value, list):
                node, shape = node.value[step], shape.item or shape
            elif step in node.mapping and step in keys and not (strange and at == len(loc) - 1):
                node, shape = node.mapping[str(step)], keys[str(step)]
            elif at == len(loc) - 1:
                (self.strangers if strange else self.faults).add((*path, step))
                child = node.mapping.get(str(step))
                return node, shape, str(step), child is not None and child.bad
            else:
                continue
            path.append(step)
        self.faults.add(tuple(path))
        return node, shape, "", node.bad

    def lacking(self, place: Place, node: Node, shape: Shape, keys: list[str]) -> None:
        before_now = self.trace.afresh.get(node.place)
        above = self.trace.over_none.get(node.place)
        names = listing(keys)
        if above is not None:
            message = f"this says something of `{shape.name}`, which is `none` above (line {above.line})"
            self.report.error("A703", message, place, f"state it whole: {names} {_are(keys)} missing")
        elif before_now is not None:
            before, now = before_now
            message = (
                f"`kind: {now}` starts afresh: nothing of `{before}` is inherited, and {names} {_are(keys)} missing"
            )
            self.report.error("A702", message, place, f"state {names} here")
        elif node is self.root:
            for key in keys:
                remedy = MISSING.get(key)
                if key == "name" and self.trace.extends:
                    remedy = "a name is never inherited: `name: my-model`"
                self.report.error("A102", f"the spec does not say its `{key}`", place._replace(line=0), remedy)
        else:
            self.report.error("A102", f"{_owner(node, shape)} lacks {names}", place, MISSING.get(keys[0]))

    def value(self, error: Any, node: Node, shape: Shape) -> None:
        kind, context, shown = error["type"], error.get("ctx", {}), show_value(node.value)
        name = _written(node) or shape.name
        if kind == "union_tag_not_found":
            self.kindless(node, shape)
        elif shape.name == "archspec":
            self.report.error(
                "A109",
                f"this is version {node.value} of the language; archspec reads 1",
                node.place,
                "write `archspec: 1`",
            )
        elif kind in ("greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number"):
            message = f"`{name}` is {node.value}; it must be {_bound(kind, context)}"
            self.report.error("A104", message, node.place, rewritten(node, shape))
        elif kind in ("too_short", "string_too_short"):
            if node.value:
                return  # its items are at fault, and told
            self.report.error("A104", f"`{name}` is empty", node.place, "write at least one")
        elif kind == "string_pattern_mismatch":
            like = name_like(str(node.value))
            remedy = (
                f"did you mean `{like}`?"
                if like
                else "lower-case letters, digits, `.`, `_` and `-`, a letter or digit first"
            )
            self.report.error("A104", f"{show_value(node.value)} is no name", node.place, remedy)
        elif kind == "value_error":
            what, _, rule = str(context["error"]).partition(" is ")
            self.report.error("A108", f"{shown} is not {what}", node.place, rewritten(node, shape) or rule)
        elif kind in ("literal_error", "union_tag_invalid"):
            legal = shape.kinds or shape.words
            guess = nearest(str(node.value), legal)
            remedy = f"did you mean `{guess}`?" if guess else f"legal: {', '.join(legal)}"
            self.report.error("A105", f"{shown} is not a value of `{name}`", node.place, remedy)
        else:
            self.report.error(
                "A103", f"`{name}` must be {expected(shape)}, not {shown}", node.place, rewritten(node, shape)
            )

    def kindless(self, node: Node, shape: Shape) -> None:
        above = self.trace.over_none.get(node.place)
        kinds = ", ".join(shape.kinds)
        if above is not None:
            message = f"this says something of a `{shape.name}` that is `none` above (line {above.line})"
            self.report.error("A703", message, node.head, f"add `kind:`, one of {kinds}")
        elif shape.name == "window":
            remedy = "for a sliding window write its size alone: `window: 4096`"
            self.report.error("A107", "`window` does not say its kind", node.head, remedy)
        else:
            self.report.error(
                "A107", f"`{shape.name}` does not say its kind", node.head, f"add `kind:`, one of {kinds}"
            )


def _are(keys: list[str]) -> str:
    return "is" if len(keys) == 1 else "are"


def _written(node: Node) -> str:
    """The key as the author wrote it: a derived value bears the name of what it follows from."""
    key = node.key
    return "" if key is None else key.text[key.column - 1 : key.column - 1 + key.length]


def _kind(node: Node) -> str | None:
    kind = node.mapping.get("kind")
    return kind.value if kind is not None and isinstance(kind.value, str) else None


def _owner(node: Node, shape: Shape) -> str:
    return owner_name(shape, _kind(node) or shape.default_kind)


def _bound(kind: str, context: dict[str, Any]) -> str:
    if kind == "finite_number":
        return "finite"
    words = {"gt": "greater than", "ge": "at least", "lt": "less than", "le": "at most"}
    return " and ".join(f"{words[key]} {context[key]:g}" for key in words if key in context)
