"""From a reference to the text of a spec: a readable, regular UTF-8 file of a sensible size, or a diagnostic."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from shlex import quote
from typing import Protocol

from archspec.diagnostics import Diagnostic, Place, nearest
from archspec.errors import SpecError

MAX_BYTES = 1 << 20
FOLDER_SPEC = "spec.yaml"  # in what `archspec build` writes


class Mark(Protocol):
    """A point of a text as PyYAML gives it, counted from 0."""

    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


class Source:
    """The text of a spec and the name it is shown under.

    `directory` is what a relative `extends` starts from, `shift` the columns before the text on its first line (`--set path=`).
    """

    def __init__(self, name: str, text: str, directory: str = "", shift: int = 0) -> None:
        self.name, self.text, self.directory, self.shift = name, text, directory, shift
        for other in ("\r\n", "\r", "\x85", "\u2028", "\u2029"):  # the line breaks of YAML
            text = text.replace(other, "\n")
        self.lines = text.split("\n")

    def place(self, start: Mark, end: Mark | None = None) -> Place:
        """The span between two marks, or to the end of the first line."""
        line = min(start.line, len(self.lines) - 1)
        text, column = self.lines[line], start.column + (self.shift if line == 0 else 0)
        stop = len(text.rstrip()) - column
        if end is not None and end.line == start.line:
            stop = end.column - start.column
        return Place(self.name, line + 1, column + 1, max(1, stop), text)


def spec_error(code: str, message: str, place: Place | None, remedy: str | None = None) -> SpecError:
    """A fault that ends the reading of a file."""
    return SpecError([Diagnostic(code, message, place, remedy)])


# ------------------------------------------------------------------------------------------------------------ finding


def is_path(ref: str) -> bool:
    """Whether a reference is a path (has a separator, or ends in .yaml) and not a zoo name."""
    return "/" in ref or os.sep in ref or ref.endswith((".yaml", ".yml"))


def zoo_directory() -> str:
    """Where the specs that come with archspec are."""
    import archspec.specs

    return os.path.dirname(archspec.specs.__file__)


def in_zoo(ref: str | Path) -> bool:
    """Whether a reference names a spec that comes with archspec; a folder or a file of that name is then not meant."""
    return isinstance(ref, str) and not is_path(ref) and os.path.isfile(os.path.join(zoo_directory(), ref + ".yaml"))


def zoo_names() -> list[str]:
    """The names of the specs that come with archspec."""
    return sorted(name[:-5] for name in os.listdir(zoo_directory()) if name.endswith(".yaml"))


def zoo_text(name: str) -> str:
    """The text of a spec that comes with archspec. Raises `SpecError`."""
    if name not in zoo_names():
        raise _no_such_name(name, None)
    return read(os.path.join(zoo_directory(), name + ".yaml"), name=f"{name}.yaml").text


def open_source(ref: str | Path, directory: str = "", at: Place | None = None) -> tuple[str, Source]:
    """The file behind a path, a folder with a spec.yaml or a zoo name; and a key that is the same for the same file.

    `directory` is where a relative path starts, `at` the place that named it. Raises `SpecError`.
    """
    name = os.fspath(ref)
    path = os.path.normpath(os.path.join(directory, name))
    inside = os.path.join(path, FOLDER_SPEC)
    if in_zoo(ref):
        path = os.path.join(zoo_directory(), name + ".yaml")
        source = read(path, name=f"{name}.yaml")
    elif os.path.isfile(inside):
        path, source = inside, read(inside, at=at)
    elif isinstance(ref, str) and not is_path(ref):
        raise _no_such_name(name, at)
    else:
        source = read(path, at=at)
    return os.path.realpath(path), source


def _no_such_name(name: str, at: Place | None) -> SpecError:
    guess = nearest(name, zoo_names())
    near = f"did you mean `{guess}`? " if guess else ""
    here = f"; the file of that name here is `./{name}`" if name and os.path.isfile(name) else ""
    remedy = f"{near}`archspec list` names the zoo; a path has a `/` or ends in .yaml{here}"
    return spec_error("A001", f"no spec in the zoo is called {name!r}", at, importing(name) or remedy)


def importing(path: str) -> str | None:
    """What to do with a checkpoint, or its config.json, in place of a spec."""
    try:
        inside = os.listdir(path) if os.path.isdir(path) else []
    except OSError:
        inside = []
    checkpoint = "config.json" in inside or sum(name.endswith(".gguf") for name in inside) == 1
    if not checkpoint and not (path.endswith((".json", ".gguf")) and os.path.isfile(path)):
        return None
    name = name_like(os.path.splitext(os.path.basename(os.path.normpath(path)))[0])
    return f"`archspec import {quote(path)} -o {'my' if name in (None, 'config') else name}.yaml` makes a spec of it"


def name_like(text: str) -> str | None:
    """The legal name of a spec that a text is near; None where there is none."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._") or None


def read(path: str, name: str | None = None, at: Place | None = None) -> Source:
    """The text of a file, if it is a readable regular UTF-8 file of a sensible size. Raises `SpecError`."""
    shown = name or path
    place = at or Place(shown)
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            raise spec_error("A003", f"{shown} is {_describe(mode)}", place, importing(path) or "name a YAML file")
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size > MAX_BYTES:
                raise _too_large(path, shown, place)
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _missing(path, shown, place) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise spec_error(
            "A002", f"{shown!r} cannot be read: {reason}", place, "check the path and its permissions"
        ) from None
    if len(data) > MAX_BYTES:
        raise _too_large(path, shown, place)
    return Source(shown, _decode(data, path, shown, place), os.path.dirname(path))


def _too_large(path: str, shown: str, place: Place) -> SpecError:
    return spec_error(
        "A004",
        f"{shown} is larger than {MAX_BYTES >> 20} MiB",
        place,
        importing(path) or "a spec is a few KiB: is this weights?",
    )


def _describe(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory without a spec.yaml"
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
    return spec_error("A001", f"there is no file {shown}", place, remedy or "check the path")


def _decode(data: bytes, path: str, shown: str, place: Place) -> str:
    if b"\0" in data:
        raise spec_error("A005", f"{shown} is a binary file", place, importing(path) or "a spec is YAML text in UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        remedy = f"line {line} holds the byte 0x{data[error.start]:02x}; save the file as UTF-8"
        raise spec_error("A005", f"{shown} is not UTF-8 text", place, remedy) from None
