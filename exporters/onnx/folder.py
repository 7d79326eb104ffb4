"""A folder that is there whole or not at all: written under another name beside its place, then renamed.

Beside a target `model` there may be, hidden: `.model.archspec-…`, being written or left by a process that was killed, and
`.model.archspec-previous`, the folder that stood at the target, for the instant between two renames.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from archspec.errors import UsageError
from archspec.exporters.files import files_in, refusals
from archspec.exporters.manifest import MANIFEST
from archspec.exporters.units import size as human

#: Bytes that a disk keeps.
SPARE = 64 << 20


@contextmanager
def atomic_folder(out: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A folder to fill, which takes the place of `out` when the block ends well and vanishes when it does not.

    An existing folder is replaced only if it is an earlier export, and only with `overwrite`; what a killed process left is
    cleared away. A kill at any moment leaves the old folder, or none, or the new one.

    Raises:
        UsageError: `out` cannot be written, is in the way, or the disk is full.
    """
    out = Path(os.path.realpath(out))
    if not out.name:
        raise UsageError(
            f"{out} is the root of the file system; an export is a folder of its own.", "choose another place"
        )
    try:
        with refusals(out):
            out.parent.mkdir(parents=True, exist_ok=True)
            with _locked(out.parent):
                _recover(out)
            refuse(out, overwrite)
            staging, lock = _new_staging(out)
    except FileNotFoundError as error:  # the parent is there: a file system such as /proc takes no new folders
        raise UsageError(f"Cannot write {out}: no folder can be made there.", "choose another place") from error
    try:
        with refusals(out):
            yield staging
            _sync(staging)
            with _locked(out.parent):
                refuse(out, overwrite)
                _swap(staging, out)
    finally:
        if staging.exists():
            shutil.rmtree(staging)
        os.close(lock)


def demand_space(folder: Path, size: int) -> None:
    """Raise UsageError unless the disk of a folder has so many bytes free, and some to spare."""
    free = shutil.disk_usage(folder).free
    if size + SPARE > free:
        raise UsageError(
            f"The weights take {human(size)}, {human(SPARE)} are kept free beside them, and {human(free)} are free on that disk.",
            "free some space, or choose another disk",
        )


def refuse(out: Path, overwrite: bool) -> None:
    """Raise UsageError unless `out` may be written: free, an empty folder, or an earlier export that may be replaced."""
    if not os.path.lexists(out) or (out.is_dir() and not any(out.iterdir())):
        return
    if not out.is_dir():
        raise UsageError(f"{out} is a file; an export is a folder.", "choose another place")
    known = exported_files(out)
    if known is None:
        raise UsageError(f"{out} holds files and is no export of archspec.", "choose another place, or empty it")
    if not overwrite:
        raise UsageError(f"{out} is an earlier export.", "say --force to replace it, or choose another place")
    foreign = sorted(set(files_in(out)) - known)
    if foreign:
        names = ", ".join(foreign[:5])
        raise UsageError(f"{out} also holds files that archspec did not write: {names}.", "move them away first")


def exported_files(folder: Path) -> set[str] | None:
    """The names of an export's files, by its manifest; None for a folder that is no export."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        return {MANIFEST, *manifest["files"]} if "archspec_export" in manifest else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time renames things in a folder."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _new_staging(out: Path) -> tuple[Path, int]:
    """A new folder beside `out` and the lock that says that its writer lives; the kernel drops the lock with the process."""
    with _locked(out.parent):
        staging = _fresh(out)
        staging.mkdir()
        lock = os.open(staging, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
    return staging, lock


def _fresh(out: Path) -> Path:
    return out.with_name(f"{_prefix(out)}{secrets.token_hex(4)}")


def _recover(out: Path) -> None:
    """Undo what a killed process left: half a swap, unfinished folders."""
    previous = out.with_name(f"{_prefix(out)}previous")
    if previous.exists() and not os.path.lexists(out):
        previous.rename(out)
    for stale in out.parent.glob(f"{_glob_escaped(_prefix(out))}*"):
        _remove_dead(stale)


def _remove_dead(staging: Path) -> None:
    """Remove a folder whose writer is gone."""
    try:
        lock = os.open(staging, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(staging, ignore_errors=True)
    except BlockingIOError:
        pass
    finally:
        os.close(lock)


def _swap(staging: Path, out: Path) -> None:
    """Put `staging` in the place of `out`."""
    if out.is_dir() and any(out.iterdir()):
        previous = out.with_name(f"{_prefix(out)}previous")
        out.rename(previous)
        try:
            staging.rename(out)
        except OSError:
            previous.rename(out)
            raise
        # under a name that is never taken back, so that half of it can not return
        trash = _fresh(out)
        previous.rename(trash)
        shutil.rmtree(trash, ignore_errors=True)
    else:
        staging.rename(out)
    _sync_directory(out.parent)


def _sync(folder: Path) -> None:
    """Everything in a folder reaches the disk before its name does."""
    for path in folder.rglob("*"):
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
    _sync_directory(folder)


def _sync_directory(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def _prefix(out: Path) -> str:
    return f".{out.name}.archspec-"


def _glob_escaped(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)
