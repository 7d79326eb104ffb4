"""The documents as their readers take them: fenced blocks, sessions of commands, headings and links."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
DOCUMENTS = tuple(sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]))
_FENCE = re.compile(r"^```([a-z]+)([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: What stands for output that is left out.
ELLIPSIS = "…"


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the word after it, its text."""

    document: Path
    line: int
    language: str
    mark: str
    text: str

    @property
    def id(self) -> str:
        return f"{self.document.stem}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A line after `$`, without its comment, and the output that is shown below it."""

    text: str
    output: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        import shlex

        return shlex.split(self.text, comments=True)


def blocks(language: str, mark: str | None = None) -> list[Block]:
    """Every block of a language in the documents; of one mark, where it is given."""
    return [b for path in DOCUMENTS for b in _blocks(path) if b.language == language and mark in (None, b.mark)]


def _blocks(path: Path) -> Iterator[Block]:
    text = path.read_text()
    for found in _FENCE.finditer(text):
        yield Block(path, text.count("\n", 0, found.start()) + 1, found[1], found[2].strip(), found[3])


def commands(block: Block) -> list[Command]:
    """The commands of a console block, in order."""
    told: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            told.append((line[2:], []))
        elif told:
            told[-1][1].append(line)
    return [Command(text, tuple(output)) for text, output in told]


def missing(shown: tuple[str, ...], printed: str) -> str | None:
    """The first piece of what is shown, between ellipses, that was not printed in this order; None if all of it was."""
    at = 0
    for piece in "\n".join(shown).split(ELLIPSIS):
        piece = piece.strip("\n")
        found = printed.find(piece, at)
        if found < 0:
            return piece
        at = found + len(piece)
    return None


def anchors(path: Path) -> set[str]:
    """What `#name` may point at: headings as GitHub names them, and explicit ids."""
    text = _FENCE.sub("", path.read_text())
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", h.replace("`", "")).strip().lower().replace(" ", "-") for h in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


def links(path: Path) -> Iterator[str]:
    """Targets of links and sources of images."""
    text = _FENCE.sub("", path.read_text())
    yield from re.findall(r"\]\(([^)\s]+)\)", text)
    yield from re.findall(r'src="([^"]+)"', text)


def reference() -> ModuleType:
    """`scripts/reference.py`, which writes the generated parts."""
    spec = importlib.util.spec_from_file_location("reference_script", ROOT / "scripts" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
