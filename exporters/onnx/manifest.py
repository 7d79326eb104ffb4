"""archspec.json, the manifest of an exported folder: what a runtime needs to know, what is there, and what was verified."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx_ir as ir

from archspec.compiler.precision import Precision, storage
from archspec.exporters.files import files_in
from archspec.exporters.manifest import LAYOUT, MANIFEST, SEAL, SETTINGS, file_hash, seal
from archspec.ops.model import Model

from .emit import Target, parts, result
from .graph import OPSET
from .sidecar import SIDECAR
from .words import Part


def write_manifest(folder: Path, content: Mapping[str, Any], known: Mapping[str, str]) -> dict[str, int]:
    """Write what is said of a folder, with the sizes of what is in it and the hashes of all but `SETTINGS`. Returns the sizes,
    the manifest's own too.

    known: the hashes of files that need not be read again.
    """
    sizes = _sizes(folder)
    hashes = {name: known.get(name) or file_hash(folder / name) for name in sizes if name not in SETTINGS}
    said = {**content, "files": sizes, "sha256": hashes}
    text = json.dumps(said | {SEAL: seal(said)}, indent=1, ensure_ascii=False)
    (folder / MANIFEST).write_text(text + "\n", "utf-8")
    return _sizes(folder)


def _sizes(folder: Path) -> dict[str, int]:
    return {name: (folder / name).stat().st_size for name in files_in(folder)}


def description(
    model: Model,
    graphs: Mapping[Part, ir.Model],
    context_length: int | None,
    target: Target,
    precision: Precision,
    written: bool,
) -> dict[str, Any]:
    """What a runtime needs to know, and where the folder came from. `written`: are the weights there?"""
    _, stack = model.main
    name, _ = result(model)
    return {
        "archspec_export": LAYOUT,
        "name": model.name,
        "form": model.form,
        "head": type(model.head).__name__.removesuffix("Head").lower(),
        "output": name,
        "vocab_size": stack.embedding.vocab,
        "context_length": context_length,
        "precision": precision.name,
        "compute": precision.compute,
        "blocks": _blocks(model, precision),
        "target": target,
        "opset": OPSET,
        "graphs": {
            part: {
                "file": parts(model)[part],
                "inputs": [_port(v) for v in graph.graph.inputs],
                "outputs": [_port(v) for v in graph.graph.outputs],
                "fusions": [str(fusion) for fusion in graph.meta["fusions"]],
            }
            for part, graph in graphs.items()
        },
        "weights": SIDECAR if written else None,
        "parameters": sum(t.size for t in model.tensors() if t.trained),
        "versions": {
            "archspec": importlib.metadata.version("archspec-compiler"),
            "onnx-ir": importlib.metadata.version("onnx-ir"),
        },
    }


def _port(value: ir.Value) -> dict[str, Any]:
    assert value.dtype is not None
    assert value.shape is not None
    dims = [d if isinstance(d, int) else str(d) for d in value.shape]
    return {"name": value.name, "type": value.dtype.numpy().name, "shape": dims}


def _blocks(model: Model, precision: Precision) -> dict[str, Any] | None:
    """How weights are stored as small integers, and what became of how many."""
    blocks = precision.blocks
    if blocks is None:
        return None
    how = {"bits": blocks.bits, "size": blocks.size, "symmetric": blocks.symmetric, "keep": precision.keep}
    return how | {"stored": str(storage(model, precision))}
