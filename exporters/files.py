"""Writing a file whole or not at all, and what is said where it cannot be."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from archspec.errors import UsageError


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that gets its name when all of it is written."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def files_in(folder: Path) -> list[str]:
    """What lies in a folder and in its folders, by paths from there. A folder that is empty, or inside another, is one of them."""
    names = []
    for path in sorted(folder.iterdir()):
        within = sorted(path.iterdir()) if path.is_dir() and not path.is_symlink() else []
        names += [f"{path.name}/{inner.name}" for inner in within] or [path.name]
    return names


def temporary_folder() -> str:
    """Where temporary files lie. Raises UsageError where there is no place for them."""
    try:
        return tempfile.gettempdir()
    except FileNotFoundError as error:
        raise UsageError(
            f"There is no place for temporary files: {error.strerror}", "name a folder that can be written to: TMPDIR=…"
        ) from error


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with whole_file(path) as file:
        file.write(text.encode())


@contextmanager
def refusals(path: Path) -> Iterator[None]:
    """What the system says where it cannot write, as sentences. Raises UsageError."""
    reasons = {
        errno.ENOSPC: ("the disk is full", "free some space, or choose another disk"),
        errno.EDQUOT: ("the disk quota is used up", "free some space, or choose another disk"),
        errno.EACCES: ("permission is denied", "choose a place that you may write to"),
        errno.EPERM: ("permission is denied", "choose a place that you may write to"),
        errno.EROFS: ("the file system is read-only", "choose a place that you may write to"),
        errno.ENOTDIR: ("a part of the path is a file", "choose another place"),
        errno.EEXIST: ("a part of the path is a file", "choose another place"),
        errno.ENAMETOOLONG: ("the name is too long", "choose a shorter one"),
        errno.EFBIG: ("the file would be larger than is allowed here", "choose another disk"),
    }
    try:
        yield
    except OSError as error:
        if error.errno not in reasons:
            raise
        reason, remedy = reasons[error.errno]
        raise UsageError(f"Cannot write {path}: {reason}.", remedy) from error
