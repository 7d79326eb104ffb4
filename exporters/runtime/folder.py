"""An exported folder, checked before anything is loaded: what it is, and that its files are whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archspec.compiler.compile import compile_spec
from archspec.compiler.precision import Blocks, Precision
from archspec.errors import ArchspecError
from archspec.exporters.manifest import LAYOUT, MANIFEST, SEAL, SETTINGS, SPEC, file_hash, seal
from archspec.language.model import Spec
from archspec.ops.head import LmHead
from archspec.ops.model import Form, Model

_AGAIN = "export the model again, or copy the whole folder again"
_YOURS = f"yours to edit are {', '.join(SETTINGS)}"


class FolderError(ArchspecError):
    """A folder is no export, or is not whole any more."""


@dataclass(frozen=True)
class ExportFolder:
    """What an export holds. `graphs`: part (`cached`, `logits`, `encoder`) -> file name. `manifest`: what archspec.json says."""

    path: Path
    spec: Spec
    model: Model
    graphs: dict[str, str]
    manifest: Mapping[str, Any]

    @property
    def form(self) -> Form:
        return self.model.form

    @property
    def precision(self) -> Precision:
        """What its weights are stored and computed in."""
        compute, how = self.manifest["compute"], self.manifest["blocks"]
        if how is None:
            return Precision(compute)
        return Precision(compute, Blocks(how["bits"], how["size"], how["symmetric"]), tuple(how["keep"]))

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
    """Check an exported folder: every file is the one that was exported, but for `SETTINGS`, which are there to be edited.

    check: the weights as well, which reads all of them; without it, their size.
    Raises FolderError with all that is missing or damaged, and SpecError for a spec that this archspec does not read.
    """
    if not path.is_dir():
        fault = "is a file" if path.exists() else "does not exist"
        raise FolderError(f"{path} {fault}", "give a folder that `archspec export` wrote")
    manifest = _manifest(path / MANIFEST)
    if manifest["weights"] is None:
        raise FolderError(f"{path} holds graphs without their weights", "export the model again, without --no-weights")
    hashes = manifest["sha256"]
    faults = [found for name in hashes if (found := _fault(path / name, manifest["files"][name]))]
    faults = faults or [
        f"{name} is not the one that was exported"
        for name, hash_ in hashes.items()
        if (check or name != manifest["weights"]) and file_hash(path / name) != hash_
    ]
    if faults:
        raise FolderError(f"{path} is damaged: {'; '.join(faults)}", f"{_AGAIN}; {_YOURS}")
    compiled = compile_spec(path / SPEC)
    graphs = {part: graph["file"] for part, graph in manifest["graphs"].items()}
    return ExportFolder(path, compiled.spec, compiled.model, graphs, manifest)


def _fault(file: Path, size: int) -> str | None:
    if not file.is_file():
        return f"{file.name} is missing"
    got = file.stat().st_size
    return None if got == size else f"{file.name} has {got:,} bytes and was written with {size:,}"


def _manifest(path: Path) -> dict[str, Any]:
    """A manifest as archspec wrote it, so that nothing has to be asked of its form any more."""
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
    if found.get(SEAL) != seal(found):
        raise FolderError(
            f"{path} was changed after the export: it says what the graphs are, and changing it changes nothing in them",
            f"export the model again, with --set PATH=VALUE for what should be otherwise; {_YOURS}",
        )
    return found
