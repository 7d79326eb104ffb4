"""Where the values of a complete spec were written."""

from __future__ import annotations

from typing import TypeAlias

from archspec.diagnostics import Place

from .nodes import Node

Path: TypeAlias = "tuple[str | int, ...]"


class Places:
    """Looks up the place of a value by its path in the spec, e.g. `("decoder", "layers", 0, "attention", "heads")`."""

    def __init__(self, root: Node) -> None:
        self.root = root

    def node(self, *path: str | int) -> Node | None:
        """The located value at a path; None where nothing was written and nothing derived."""
        node: Node | None = self.root
        for step in path:
            if node is None:
                return None
            if isinstance(step, int):
                node = node.value[step] if isinstance(node.value, list) and step < len(node.value) else None
            else:
                node = node.get(step)
        return node

    def __call__(self, *path: str | int) -> Place:
        """The key of the value at a path; where it was not written, of the nearest mapping around it."""
        for end in range(len(path), 0, -1):
            node = self.node(*path[:end])
            if node is not None:
                return node.head
        return self.root.place._replace(line=0)
