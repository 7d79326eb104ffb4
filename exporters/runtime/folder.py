"""An exported folder, checked before anything is loaded: what it is, and that its files are whole."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archspec.compiler.compile import compile_spec
from archspec.errors import ArchspecError
from archspec.language.model import Spec
from archspec.ops.head import LmHead
from archspec.ops.model import Form, Model

MANIFEST, SPEC = "archspec.json", "spec.yaml"
#: The layout of exported folders that is read here.
LAYOUT = 1

_AGAIN = "export the model again, or copy the whole folder again"


class FolderError(ArchspecError):
    """A folder is no export, or is not whole any more."""


@dataclass(frozen=True)
class ExportFolder:
    """What an export holds. `graphs`: part (`cached`, `logits`, `encoder`) -> file name."""

    path: Path
    spec: Spec
    model: Model
    graphs: dict[str, str]

    @property
    def form(self) -> Form:
        return self.model.form

    @property
    def cached(self) -> bool:
        """Is there a graph that steps through a text?"""
        return "cached" in self.graphs

    @property
    def generates(self) -> bool:
        """Does it continue texts? A decoder, alone or beside an encoder, with an lm head does."""
        return self.cached and isinstance(self.model.head, LmHead)

    @property
    def main(self) -> Path:
        """The graph with the head: the cached one where there is one."""
        return self.path / self.graphs["cached" if self.cached else "logits"]

    @property
    def encoder(self) -> Path | None:
        """The graph whose keys and values a decoder's cross attention reads."""
        return self.path / self.graphs["encoder"] if "encoder" in self.graphs else None


def open_folder(path: Path, *, check: bool = False) -> ExportFolder:
    """Check an exported folder: its files have their sizes, its spec and its graphs are those that were exported.

    check: the weights as well, which reads all of them.
    Raises FolderError with all that is missing or damaged, and SpecError for a spec that this archspec does not read.
    """
    if not path.is_dir():
        fault = "is a file" if path.exists() else "does not exist"
        raise FolderError(f"{path} {fault}", "give a folder that `archspec export` wrote")
    manifest = _manifest(path / MANIFEST)
    if manifest.get("weights", "") is None:
        raise FolderError(f"{path} holds graphs without their weights", "export the model again, without --no-weights")
    try:
        graphs = {part: str(graph["file"]) for part, graph in manifest["graphs"].items()}
        sizes = {name: int(manifest["files"][name]) for name in [*graphs.values(), manifest["weights"], SPEC]}
        weights = str(manifest["weights"])
        hashes = {name: str(manifest["sha256"][name]) for name in sizes}
        if not {"cached", "logits"} & set(graphs):
            raise ValueError("no graph has the head")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FolderError(f"{path / MANIFEST} does not say which files the export has", _AGAIN) from error
    faults = [found for name, size in sizes.items() if (found := _fault(path / name, size))]
    if not faults:
        faults = [
            f"{name} is not the one that was exported"
            for name, digest in hashes.items()
            if (check or name != weights) and _sha256(path / name) != digest
        ]
    if faults:
        raise FolderError(f"{path} is damaged: {'; '.join(faults)}", _AGAIN)
    compiled = compile_spec(path / SPEC)
    if compiled.model.form == "encoder_decoder" and "cached" in graphs and "encoder" not in graphs:
        raise FolderError(f"{path / MANIFEST} names no graph of the encoder", _AGAIN)
    return ExportFolder(path, compiled.spec, compiled.model, graphs)


def _fault(file: Path, size: int) -> str | None:
    if not file.is_file():
        return f"{file.name} is missing"
    got = file.stat().st_size
    return None if got == size else f"{file.name} has {got:,} bytes and was written with {size:,}"


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _manifest(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FolderError(
            f"{path.parent} is no export: it has no {path.name}", "`archspec export SPEC -o DIR` writes such a folder"
        )
    try:
        manifest = json.loads(path.read_bytes())
    except ValueError as error:
        raise FolderError(f"{path} is damaged: it is not JSON", _AGAIN) from error
    layout = manifest.get("archspec_export") if isinstance(manifest, dict) else None
    if layout != LAYOUT:
        raise FolderError(f"{path} is no manifest of layout {LAYOUT}, but of {layout}", _AGAIN)
    found: dict[str, Any] = manifest
    return found
