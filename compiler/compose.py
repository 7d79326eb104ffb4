"""From text to located values, strictly.

PyYAML finds the structure and its lines and columns, event by event; it does not guess types (`scalars` does), and nothing is
expanded on trust: depth and the number of values are limited before they cost anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeAlias

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from archspec.diagnostics import Place
from archspec.errors import SpecError

from .nodes import WRONG, Node, Report
from .scalars import AmbiguousError, resolve_plain
from .source import Source, spec_error

MAX_DEPTH = 64
MAX_VALUES = 20_000

NodeEvent: TypeAlias = "AliasEvent | ScalarEvent | SequenceStartEvent | MappingStartEvent"


def compose(source: Source, report: Report) -> Node:
    """The one document of a source as located values. Faults that hide nothing go to `report`, others are raised."""
    try:
        return _Composer(source, report).document()
    except yaml.MarkedYAMLError as error:
        if (unclosed := _unclosed(error, source)) is not None:
            raise unclosed from None
        mark = error.problem_mark or error.context_mark
        place = source.place(mark) if mark else Place(source.name)
        place, problem = place._replace(length=1), error.problem or error.context or ""
        if "nesting depth" in problem:  # the parser's own limit is met before ours in a long row of brackets
            raise _too_deep(place) from None
        raise spec_error("A007", f"not YAML: {problem}", place, _syntax_remedy(place, source)) from None
    except yaml.reader.ReaderError as error:
        raise spec_error(
            "A005", f"{source.name} holds a control character: {error.reason}", Place(source.name)
        ) from None


def _too_deep(place: Place) -> SpecError:
    return spec_error("A012", f"nested deeper than {MAX_DEPTH}", place, "no spec needs so many brackets")


def _unclosed(error: yaml.MarkedYAMLError, source: Source) -> SpecError | None:
    """A bracket that is still open on a later line: the parser stops far from it, and it is what to look at."""
    opened, met = error.context_mark, error.problem_mark
    if opened is None or met is None or "while parsing a flow" not in (error.context or "") or met.line <= opened.line:
        return None
    place = source.place(opened)._replace(length=1)
    bracket = place.text[place.column - 1 : place.column]
    if bracket not in ("{", "["):
        return None
    close = "}" if bracket == "{" else "]"
    remedy = f"close it with `{close}`, or write the `,` that is missing before line {met.line + 1}"
    return spec_error("A007", f"not YAML: this `{bracket}` is not closed", place, remedy)


_SPACELESS = r"\s*(?:- )?([a-z_]+):([^\s:/]\S*)\s*$"


def _syntax_remedy(place: Place, source: Source) -> str:
    if place.text[: place.column].lstrip(" ").startswith("\t") or place.text[place.column - 1 :].startswith("\t"):
        return "YAML is indented with spaces, not tabs"
    for line in source.lines[max(0, place.line - 2) : place.line]:
        if (pair := re.match(_SPACELESS, line)) is not None:
            return f"a colon needs a space after it: `{pair[1]}: {pair[2]}`"
    return "check the indentation, brackets and quotes here and on the line above"


class _Composer:
    def __init__(self, source: Source, report: Report) -> None:
        self.source, self.report = source, report
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser where it was built
        self.events: Iterator[Any] = yaml.parse(source.text, Loader=loader)
        self.anchors: dict[str, tuple[Node, int]] = {}
        self.count = 0

    def document(self) -> Node:
        next(self.events)  # the stream's start
        first = next(self.events)
        if not isinstance(first, DocumentStartEvent):
            raise spec_error(
                "A006",
                f"{self.source.name} says nothing",
                Place(self.source.name),
                "`archspec init` writes a spec to start from",
            )
        if first.version or first.tags:
            raise spec_error("A010", "a spec has no YAML directives", self.start(first), "remove the line")
        node = self.node(next(self.events), 0)
        next(self.events)  # the document's end
        after = next(self.events)
        if isinstance(after, DocumentStartEvent):
            raise spec_error("A008", "a second document begins here", self.start(after), "one file holds one spec")
        return node

    def place(self, first: Any, last: Any = None) -> Place:
        """The span of an event, or from one to another."""
        return self.source.place(first.start_mark, (last or first).end_mark)

    def start(self, event: Any) -> Place:
        """From an event to the end of its line."""
        return self.source.place(event.start_mark)

    def node(self, event: NodeEvent, depth: int) -> Node:
        before = self.count
        if isinstance(event, AliasEvent):
            return self.alias(event)
        self.grow(1, event)
        if event.tag is not None:
            place = self.start(event)
            self.report.error("A010", f"the tag {event.tag.split(':')[-1]!r} is not used here", place, "remove the tag")
        if isinstance(event, ScalarEvent):
            node = self.scalar(event)
        elif depth >= MAX_DEPTH:
            raise _too_deep(self.start(event)._replace(length=1))
        elif isinstance(event, MappingStartEvent):
            node = self.mapping(event, depth)
        elif isinstance(event, SequenceStartEvent):
            node = self.sequence(event, depth)
        if event.tag is not None:
            node = node.marked()
        if event.anchor is not None:
            self.anchors[event.anchor] = (node, self.count - before)
        return node

    def grow(self, by: int, event: NodeEvent) -> None:
        self.count += by
        if self.count > MAX_VALUES:
            code = "A011" if isinstance(event, AliasEvent) else "A012"
            place = self.place(event)
            raise spec_error(code, f"more than {MAX_VALUES} values", place, "repeat layers with `repeat`")

    def alias(self, event: AliasEvent) -> Node:
        place = self.place(event)
        if event.anchor not in self.anchors:
            message = f"`*{event.anchor}` has no anchor before it, or stands inside it"
            raise spec_error("A011", message, place, f"write `&{event.anchor}` before the value it repeats")
        node, size = self.anchors[event.anchor]
        self.grow(size, event)
        return node

    def scalar(self, event: ScalarEvent) -> Node:
        place = self.place(event)
        if not event.implicit[0]:  # quoted, or a block of text
            return Node(event.value, place, quoted=True)
        try:
            return Node(resolve_plain(event.value), place)
        except AmbiguousError as fault:
            self.report.error("A013", fault.what, place, fault.remedy)
            return Node(WRONG, place, bad=True)

    def sequence(self, event: SequenceStartEvent, depth: int) -> Node:
        items: list[Node] = []
        while not isinstance(item := next(self.events), SequenceEndEvent):
            items.append(self.node(item, depth + 1))
        return Node(items, self.place(event, item))

    def mapping(self, event: MappingStartEvent, depth: int) -> Node:
        entries: dict[str, Node] = {}
        while not isinstance(item := next(self.events), MappingEndEvent):
            self.grow(1, item)
            if not isinstance(item, ScalarEvent) or not item.value:
                place = self.start(item)
                raise spec_error("A015", "a key must be a word", place, "write `key: value`")
            key = self.place(item)
            child = self.node(next(self.events), depth + 1)
            if item.value in entries:
                first = entries[item.value].key
                assert first is not None
                remedy = f"first on line {first.line}, again on line {key.line}: keep one"
                self.report.error("A009", f"`{item.value}` is written twice", key, remedy)
                continue
            entries[item.value] = child.under(key)
        return Node(entries, self.place(event, item))
