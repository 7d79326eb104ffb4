"""From a file to located values, strictly.

PyYAML finds the structure and its lines and columns; it does not guess types (`scalars` does), and nothing is expanded on trust:
size, depth and the number of values are limited before they cost anything.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from yaml.events import AliasEvent, DocumentStartEvent, MappingEndEvent, MappingStartEvent, ScalarEvent
from yaml.events import SequenceEndEvent, SequenceStartEvent

from archspec.diagnostics import Diagnostic, Place, nearest
from archspec.errors import SpecError

from .nodes import Node, Report
from .scalars import AmbiguousError, resolve_plain

MAX_BYTES = 1 << 20
MAX_DEPTH = 64
MAX_VALUES = 50_000

_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")


def _loader() -> type:
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class Source:
    """The text of a spec and the name it is shown under; `directory` is what a relative `extends` starts from."""

    name: str
    text: str
    directory: str = ""
    shift: int = 0  # columns before the text on its one line, for `--set path=`
    lines: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.lines = _BREAK.split(self.text)

    def place(self, start: yaml.Mark, end: yaml.Mark | None = None) -> Place:
        """The span between two marks, or to the end of the first line."""
        line = min(start.line, len(self.lines) - 1)
        text, column = self.lines[line], start.column + (self.shift if line == 0 else 0)
        stop = len(text.rstrip()) - column
        if end is not None and end.line == start.line:
            stop = end.column - start.column
        return Place(self.name, line + 1, column + 1, max(1, stop), text)


def _fail(code: str, message: str, place: Place | None, remedy: str | None = None) -> SpecError:
    return SpecError([Diagnostic(code, message, place, remedy)])


# ------------------------------------------------------------------------------------------------------------ finding


def is_path(ref: str) -> bool:
    """Whether a reference is a path (has a separator, or ends in .yaml) and not a zoo name."""
    return "/" in ref or os.sep in ref or ref.endswith((".yaml", ".yml"))


def zoo_directory() -> str:
    """Where the specs that come with archspec are."""
    import archspec.specs

    return os.path.dirname(archspec.specs.__file__)


def zoo_names() -> list[str]:
    """The names of the specs that come with archspec."""
    return sorted(name[:-5] for name in os.listdir(zoo_directory()) if name.endswith(".yaml"))


def open_source(ref: str | Path, directory: str = "", at: Place | None = None) -> tuple[str, Source]:
    """The file behind a path or a zoo name, and a key that is the same for the same file.

    `directory` is where a relative path starts, `at` the place that named it. Raises `SpecError`.
    """
    if isinstance(ref, Path) or is_path(ref):
        path = os.path.normpath(os.path.join(directory, os.fspath(ref)))
        return os.path.realpath(path), read(path, at=at)
    path = os.path.join(zoo_directory(), ref + ".yaml")
    if not ref or not os.path.exists(path):
        guess = nearest(ref, zoo_names())
        near = f"did you mean `{guess}`? " if guess else ""
        here = f"; the file of that name here is `./{ref}`" if ref and os.path.exists(ref) else ""
        remedy = f"{near}`archspec list` names the zoo; a path has a `/` or ends in .yaml{here}"
        raise _fail("A001", f"no spec in the zoo is called {ref!r}", at, remedy)
    return os.path.realpath(path), read(path, name=f"{ref}.yaml")


def read(path: str, name: str | None = None, at: Place | None = None) -> Source:
    """The text of a file, if it is a readable regular UTF-8 file of a sensible size. Raises `SpecError`."""
    shown = name or path
    place = at or Place(shown)
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            raise _fail("A003", f"{shown} is {_describe(mode)}", place, "name a YAML file")
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size > MAX_BYTES:
                raise _too_large(shown, place)
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _missing(path, shown, place) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _fail(
            "A002", f"{shown!r} cannot be read: {reason}", place, "check the path and its permissions"
        ) from None
    if len(data) > MAX_BYTES:
        raise _too_large(shown, place)
    return Source(shown, _decode(data, shown, place), os.path.dirname(path))


def _too_large(shown: str, place: Place) -> SpecError:
    return _fail(
        "A004", f"{shown} is larger than {MAX_BYTES >> 20} MiB", place, "a spec is a few KiB: is this weights?"
    )


def _describe(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    return "a pipe" if stat.S_ISFIFO(mode) else "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "a socket"


def _missing(path: str, shown: str, place: Place) -> SpecError:
    folder, base = os.path.split(path)
    remedy = None
    if os.path.isdir(folder or "."):
        try:
            guess = nearest(base, (n for n in os.listdir(folder or ".") if n.endswith((".yaml", ".yml"))))
        except OSError:
            guess = None
        remedy = f"did you mean `{os.path.join(folder, guess)}`?" if guess else None
    stem = base.removesuffix(".yaml").removesuffix(".yml")
    if remedy is None and stem in zoo_names():
        remedy = f"the zoo has `{stem}`: write it without .yaml"
    return _fail("A001", f"there is no file {shown}", place, remedy or "check the path")


def _decode(data: bytes, shown: str, place: Place) -> str:
    if b"\0" in data:
        raise _fail("A005", f"{shown} is a binary file", place, "a spec is YAML text in UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        remedy = f"line {line} holds the byte 0x{data[error.start]:02x}; save the file as UTF-8"
        raise _fail("A005", f"{shown} is not UTF-8 text", place, remedy) from None


# ---------------------------------------------------------------------------------------------------------- composing


def compose(source: Source, report: Report) -> Node:
    """The one document of a source as located values. Faults that hide nothing go to `report`, others are raised."""
    try:
        return _Composer(source, report).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = source.place(mark) if mark else Place(source.name)
        place = place._replace(length=1)
        raise _fail("A007", f"not YAML: {error.problem or error.context}", place, _syntax_remedy(place)) from None
    except yaml.reader.ReaderError as error:
        raise _fail("A005", f"{source.name} holds a control character: {error.reason}", Place(source.name)) from None


def _syntax_remedy(place: Place) -> str:
    if place.text[: place.column].lstrip(" ").startswith("\t") or place.text[place.column - 1 :].startswith("\t"):
        return "YAML is indented with spaces, not tabs"
    return "check the indentation, brackets and quotes here and on the line above"


class _Composer:
    def __init__(self, source: Source, report: Report) -> None:
        self.source, self.report = source, report
        self.events = yaml.parse(source.text, Loader=_loader())
        self.anchors: dict[str, tuple[Node, int]] = {}
        self.count = 0

    def document(self) -> Node:
        next(self.events)  # the stream's start
        first = next(self.events)
        if not isinstance(first, DocumentStartEvent):
            raise _fail(
                "A006",
                f"{self.source.name} says nothing",
                Place(self.source.name),
                "`archspec init` writes a spec to start from",
            )
        if first.version or first.tags:
            raise _fail("A010", "a spec has no YAML directives", self.source.place(first.start_mark), "remove the line")
        node = self.node(next(self.events), 0)
        next(self.events)  # the document's end
        after = next(self.events)
        if isinstance(after, DocumentStartEvent):
            raise _fail(
                "A008", "a second document begins here", self.source.place(after.start_mark), "one file holds one spec"
            )
        return node

    def node(self, event: yaml.Event, depth: int) -> Node:
        before = self.count
        if isinstance(event, AliasEvent):
            return self.alias(event)
        self.grow(1, event)
        if event.tag is not None:
            place = self.source.place(event.start_mark)
            self.report.error("A010", f"the tag {event.tag.split(':')[-1]!r} is not used here", place, "remove the tag")
        if isinstance(event, ScalarEvent):
            node = self.scalar(event)
        elif depth >= MAX_DEPTH:
            raise _fail(
                "A012", f"nested deeper than {MAX_DEPTH}", self.source.place(event.start_mark)._replace(length=1)
            )
        elif isinstance(event, MappingStartEvent):
            node = self.mapping(event, depth)
        else:
            node = self.sequence(event, depth)
        if event.anchor is not None:
            self.anchors[event.anchor] = (node, self.count - before)
        return node

    def grow(self, by: int, event: yaml.Event) -> None:
        self.count += by
        if self.count > MAX_VALUES:
            code = "A011" if isinstance(event, AliasEvent) else "A012"
            place = self.source.place(event.start_mark, event.end_mark)
            raise _fail(code, f"more than {MAX_VALUES} values", place, "repeat layers with `repeat`")

    def alias(self, event: AliasEvent) -> Node:
        place = self.source.place(event.start_mark, event.end_mark)
        if event.anchor not in self.anchors:
            message = f"`*{event.anchor}` has no anchor before it, or stands inside it"
            raise _fail("A011", message, place, f"write `&{event.anchor}` before the value it repeats")
        node, size = self.anchors[event.anchor]
        self.grow(size, event)
        return node

    def scalar(self, event: ScalarEvent) -> Node:
        place = self.source.place(event.start_mark, event.end_mark)
        if not event.implicit[0]:  # quoted, or a block of text
            return Node(event.value, place, quoted=True)
        try:
            return Node(resolve_plain(event.value), place)
        except AmbiguousError as fault:
            self.report.error("A013", fault.what, place, fault.remedy)
            return Node(fault.value, place, bad=True)

    def sequence(self, event: SequenceStartEvent, depth: int) -> Node:
        items: list[Node] = []
        while not isinstance(item := next(self.events), SequenceEndEvent):
            items.append(self.node(item, depth + 1))
        return Node(items, self.source.place(event.start_mark, item.end_mark))

    def mapping(self, event: MappingStartEvent, depth: int) -> Node:
        entries: dict[str, Node] = {}
        while not isinstance(item := next(self.events), MappingEndEvent):
            self.grow(1, item)
            if not isinstance(item, ScalarEvent) or not item.value:
                place = self.source.place(item.start_mark)
                raise _fail("A015", "a key must be a word", place, "write `key: value`")
            key = self.source.place(item.start_mark, item.end_mark)
            child = self.node(next(self.events), depth + 1)
            if item.value in entries:
                first = entries[item.value].key
                assert first is not None
                remedy = f"first on line {first.line}, again on line {key.line}: keep one"
                self.report.error("A009", f"`{item.value}` is written twice", key, remedy)
                continue
            entries[item.value] = Node(child.value, child.place, key, child.bad, child.quoted)
        return Node(entries, self.source.place(event.start_mark, item.end_mark))
