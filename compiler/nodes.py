"""Located values: a spec's text as a tree in which everything remembers where it was written."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from archspec.diagnostics import Diagnostic, Place


class Nothing:
    """A value that the language does not have: no construct accepts it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


NULL: Final = Nothing("nothing")  # what YAML calls null: a section with nothing in it
WRONG: Final = Nothing("a value that was refused")
Mapping: TypeAlias = "dict[str, Node]"
Value: TypeAlias = "int | float | bool | str | Nothing | list[Node] | dict[str, Node]"


class Node:
    """A value, the place where it was written, and the key it stands under. Never changed once made.

    `bad`: its fault is reported already, and what follows from it is not reported again.
    """

    __slots__ = ("bad", "key", "place", "quoted", "value")

    def __init__(
        self, value: Value, place: Place, key: Place | None = None, bad: bool = False, quoted: bool = False
    ) -> None:
        self.value, self.place, self.key, self.bad, self.quoted = value, place, key, bad, quoted

    @property
    def mapping(self) -> Mapping:
        """The entries of a mapping; none of anything else."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def head(self) -> Place:
        """Where a diagnostic points: the key it stands under, or the value where there is none."""
        return self.key or self.place

    def get(self, key: str) -> Node | None:
        """The node under `key`, if this is a mapping that has it."""
        return self.mapping.get(key)

    def whole(self, key: str) -> int | None:
        """The positive integer under `key`; None if it is missing or is something else."""
        node = self.mapping.get(key)
        value = None if node is None else node.value
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

    def with_value(self, value: Value) -> Node:
        """This node with another value at the same place."""
        return Node(value, self.place, self.key, self.bad, self.quoted)

    def marked(self) -> Node:
        """This node, with its fault reported."""
        return Node(self.value, self.place, self.key, True, self.quoted)

    def under(self, key: Place) -> Node:
        """This node as the value of a key."""
        return Node(self.value, self.place, key, self.bad, self.quoted)

    def derived(self, value: Value) -> Node:
        """A value that follows from this one: it stands where this one was written."""
        return Node(value, self.place, self.key)


def kind_of(node: Node | None) -> str | None:
    """The kind a node names: its `kind`, or the word itself."""
    if node is None:
        return None
    value: Any = node.value
    if isinstance(value, dict):
        value = value["kind"].value if "kind" in value else None
    return value if isinstance(value, str) else None


def is_none(node: Node | None) -> bool:
    """Whether the node says `none`."""
    return node is not None and kind_of(node) == "none"


def plain(node: Node) -> Any:
    """The value without its places, for validation. Lists become tuples."""
    value = node.value
    if isinstance(value, dict):
        return {key: plain(child) for key, child in value.items()}
    if isinstance(value, list):
        return tuple(plain(child) for child in value)
    return value


def show_value(value: Any) -> str:
    """A value as a message shows it: short, on one line, text in quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str):
        text = repr(value if len(value) <= 40 else value[:39] + "…")
        return f"the text {text}"
    return repr(value)


class Report:
    """The diagnostics of one run, in the order they were found."""

    def __init__(self) -> None:
        self.errors: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []
        self._told: set[tuple[str, Place, str]] = set()

    def error(self, code: str, message: str, place: Place, remedy: str | None = None) -> None:
        """Record an error, once for a code and a place: one line may have gone into many layers."""
        if self._new(code, place, message):
            self.errors.append(Diagnostic(code, message, place, remedy))

    def warn(self, code: str, message: str, place: Place, remedy: str) -> None:
        """Record a warning, once for a code and a place."""
        if self._new(code, place, message):
            self.warnings.append(Diagnostic(code, message, place, remedy, severity="warning"))

    def _new(self, code: str, place: Place, message: str) -> bool:
        key = (code, place, "" if place.line else message)
        if key in self._told:
            return False
        self._told.add(key)
        return True
