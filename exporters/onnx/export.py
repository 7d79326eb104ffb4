"""The export of a model: a folder of graphs and their weights, checked against PyTorch before it gets its name."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from archspec.errors import UsageError
from archspec.ops.head import LmHead
from archspec.ops.model import Model

from .emit import Target, emit, parts, result
from .folder import MANIFEST, atomic_folder
from .graph import OPSET
from .passes.fusion import Fusion
from .precision import FP32, Precision
from .sidecar import SIDECAR, Progress, write_weights
from .weights import Weights
from .words import Part

if TYPE_CHECKING:
    from archspec.exporters.torch.module import Transformer

    from .verify import Verification

SPEC = "spec.yaml"
#: The version of the folder's layout.
LAYOUT = 1


@dataclass(frozen=True)
class ExportSummary:
    """What an export wrote. `files`: name -> bytes. `weight_bytes`: those of the sidecar. `nodes`: a graph's, by part.

    `fusions`: what became of the main graph's parts for the target `ort`.
    """

    folder: Path
    form: str
    files: Mapping[str, int]
    weight_bytes: int
    parameters: int
    nodes: Mapping[Part, int]
    fusions: tuple[Fusion, ...]
    verification: Verification | None


def export(
    model: Model,
    weights: Weights,
    spec_yaml: str,
    out: Path,
    *,
    context_length: int | None = None,
    overwrite: bool = False,
    verify: bool = True,
    module: Transformer | None = None,
    target: Target = "onnx",
    precision: Precision = FP32,
    last_only: bool = True,
    companions: Sequence[Path] = (),
    progress: Progress | None = None,
) -> ExportSummary:
    """Write a model's graphs and weights to the folder `out`, which appears whole or not at all.

    weights: a stored tensor by its path (`model.tensors()`), in its stored shape; read one at a time.
    spec_yaml: the complete spec, kept as `spec.yaml` and, with its SHA-256, in every graph's metadata.
    context_length: the longest run that makes sense, for the manifest.
    overwrite: replace an earlier export.
    verify: compare with PyTorch first; `module` is the built model with these weights (made here if it is not given).
    target: operators of opset 23 only, or ONNX Runtime's fused ones where there are any.
    precision: of the numbers in the graphs.
    last_only: the cached graph gives the logits of each row's last token alone. `logits.onnx` gives all, always.
    companions: files that belong beside the model (`tokenizer.json`), copied.
    progress: called with what is being done and the share of it that is done.

    Raises:
        UsageError: `out` cannot be written, or is in the way.
        VerificationError: ONNX Runtime does not compute what PyTorch does; nothing is left behind.
    """
    progress = progress or (lambda stage, share: None)
    digest = hashlib.sha256(spec_yaml.encode()).hexdigest()
    metadata = {"archspec.spec": spec_yaml, "archspec.spec_sha256": digest}
    files = parts(model)
    last_only &= isinstance(model.head, LmHead)
    with atomic_folder(out, overwrite=overwrite) as folder:
        graphs = {
            part: emit(
                model,
                part,
                weights,
                last_only=last_only and part == "cached",
                metadata=metadata,
                precision=precision,
                target=target,
                context=context_length,
            )
            for part in files
        }
        weight_bytes, weights_hash = write_weights(list(graphs.values()), folder, progress)
        for part, graph in graphs.items():
            ir.save(graph, folder / files[part])
        (folder / SPEC).write_text(spec_yaml, "utf-8")
        for companion in companions:
            _copy(companion, folder)
        manifest = _manifest(model, graphs, digest, context_length, target, precision)
        checked = _verified(folder, model, weights, module, progress) if verify else None
        manifest["files"] = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
        manifest["sha256"] = {SIDECAR: weights_hash, SPEC: digest} | {
            name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in files.values()
        }
        manifest["verification"] = asdict(checked) if checked else None
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", "utf-8")
        sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    return ExportSummary(
        folder=out,
        form=model.form,
        files=sizes,
        weight_bytes=weight_bytes,
        parameters=sum(t.size for t in model.tensors() if t.trained),
        nodes={part: len(graph.graph) for part, graph in graphs.items()},
        fusions=graphs["cached" if "cached" in graphs else "logits"].meta["fusions"],
        verification=checked,
    )


def _copy(companion: Path, folder: Path) -> None:
    if (folder / companion.name).exists() or companion.name == MANIFEST:
        raise UsageError(f"{companion} has the name of a file of the export.", "rename it")
    shutil.copyfile(companion, folder / companion.name)


def _manifest(
    model: Model,
    graphs: Mapping[Part, ir.Model],
    digest: str,
    context_length: int | None,
    target: Target,
    precision: Precision,
) -> dict[str, Any]:
    """What a runtime needs to know, and where the folder came from."""
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
        "precision": precision.compute,
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
        "weights": SIDECAR,
        "parameters": sum(t.size for t in model.tensors() if t.trained),
        "spec_sha256": digest,
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


def _verified(
    folder: Path, model: Model, weights: Weights, module: Transformer | None, progress: Progress
) -> Verification:
    """Compare the written folder with PyTorch in float32. Raises VerificationError."""
    import torch

    from .verify import loaded, verify

    progress("verification", 0.0)
    if module is not None:
        held = next(module.parameters())
        module = module if held.dtype == torch.float32 and held.device.type == "cpu" else None
    module = module or loaded(model, weights)
    checked = verify(folder, model, module)
    progress("verification", 1.0)
    return checked
