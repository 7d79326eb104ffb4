"""The export of a model: a folder of graphs and their weights, checked against PyTorch before it gets its name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import onnx_ir as ir

from archspec.compiler.precision import FP32, Precision, storage
from archspec.errors import UsageError
from archspec.exporters.fresh import Fresh, untrained
from archspec.exporters.manifest import SPEC
from archspec.ops.head import LmHead
from archspec.ops.model import Model

from .beside import Beside, write_beside
from .comparison import Comparison
from .emit import Target, emit, parts
from .folder import atomic_folder, demand_space
from .graph import uncollected
from .manifest import description, write_manifest
from .passes.fusion import Fusion
from .sidecar import SIDECAR, Progress, bytes_of, refer_weights, write_weights
from .weights import Weights
from .words import Part

if TYPE_CHECKING:
    from archspec.exporters.torch.module import Transformer

    from .apart import Apart
    from .verify import Verification


@dataclass(frozen=True, repr=False)
class ExportSummary:
    """What an export wrote. `files`: name -> bytes. `weight_bytes`: of the weights, written or not. `nodes`: a graph's, by part.

    `fusions`: what became of the main graph's parts for the target `ort`; `stored`: of its weights, where they were to be in
    blocks.
    `left_out`: a file for other runtimes that was not written -> why.
    `seed`: of the weights, where they are fresh and written; None: they came from somewhere.
    """

    folder: Path
    form: str
    files: Mapping[str, int]
    weight_bytes: int
    parameters: int
    nodes: Mapping[Part, int]
    fusions: tuple[Fusion, ...]
    stored: str | None
    left_out: Mapping[str, str]
    seed: int | None
    verification: Verification | None

    def __str__(self) -> str:
        """What lies where, and first of all whether anything in it is trained."""
        fresh = [] if self.seed is None else [untrained(self.seed)]
        name = f"{self.folder} ({self.form.replace('_', '-')})"
        checked = f"verified on {self.verification.runtime}" if self.verification else "not verified"
        said = [f"{name}: {self.parameters:,} parameters, {self.weight_bytes:,} bytes of weights", checked]
        return "\n".join([*fresh, *said, *(f"no {file}: {reason}" for file, reason in self.left_out.items())])

    __repr__ = __str__


@uncollected()
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
    graph_only: bool = False,
    budget: float | None = None,
    beside: Beside | None = None,
    apart: Apart | None = None,
    progress: Progress | None = None,
) -> ExportSummary:
    """Write a model's graphs and weights to the folder `out`, which appears whole or not at all.

    weights: a stored tensor by its path (`model.tensors()`), or rows of it; read when they are written, and not kept.
    spec_yaml: the complete spec, kept as `spec.yaml` and, with its SHA-256, in every graph's metadata.
    context_length: the longest run that makes sense.
    overwrite: replace an earlier export.
    verify: compare with PyTorch first; `module` is the built model with these weights (made here if it is not given).
    target: operators of opset 23 only, or ONNX Runtime's fused ones where there are any.
    precision: of the numbers in the graphs.
    last_only: the cached graph gives the logits of each row's last token alone. `logits.onnx` gives all, always.
    graph_only: no weights are written, and nothing is verified: the graphs refer to a file that is not there.
    budget: the mean divergence from float32 that a narrower precision may have; None: `measures.BUDGETS`.
    apart: a process that PyTorch answers in, where this one does not ask it: for float32, without `module`.
    progress: called with what is being done and the share of it that is done.

    Raises, with nothing left behind:
        UsageError: `out` cannot be written, or is in the way; there is no room to verify; `precision` keeps what there is not;
            there is no such target; a budget is no number above 0, or nothing is held against it.
        WeightsError: a weight that the precision has no number for.
        VerificationError: ONNX Runtime does not compute what PyTorch does.
        BudgetError: the precision costs more than the budget.
    """
    if target not in get_args(Target):
        raise UsageError(f"There is no target {target!r}.", f"say {' or '.join(get_args(Target))}")
    verify &= not graph_only
    _demand_budget(budget, precision, verify)
    progress, beside = progress or (lambda stage, share: None), beside or Beside()
    comparison = None
    if verify:
        comparison = Comparison(
            model, weights, precision, module=module, apart=apart, context=context_length, budget=budget
        )
    spec_hash = hashlib.sha256(spec_yaml.encode()).hexdigest()
    metadata = {"archspec.spec": spec_yaml, "archspec.spec_sha256": spec_hash}
    files = parts(model)
    last_only &= isinstance(model.head, LmHead)
    made = partial(
        emit, model, weights=weights, metadata=metadata, precision=precision, target=target, context=context_length
    )
    graphs = {part: made(part, last_only=last_only and part == "cached") for part in files}
    emitted = list(graphs.values())
    weight_bytes = bytes_of(emitted)
    if comparison:
        comparison.demand_room(weight_bytes)
    if precision.blocks and not graph_only:
        import_module(f"{__package__}.quantise")  # and torch with it, before threads ask for it at once
    with atomic_folder(out, overwrite=overwrite) as folder:
        hashes = {SPEC: spec_hash}  # of what need not be read again
        if graph_only:
            refer_weights(emitted, folder)
        else:
            demand_space(folder, weight_bytes)
            hashes[SIDECAR] = write_weights(emitted, folder, progress)
        for part, graph in graphs.items():
            ir.save(graph, folder / files[part])
        (folder / SPEC).write_text(spec_yaml, "utf-8")
        left_out = write_beside(
            folder, model, graphs.get("cached"), files.get("cached", ""), beside, context_length, precision
        )
        exact = {part: graph.meta["exact"] for part, graph in graphs.items()}
        checked = comparison.of(folder, exact, progress) if comparison else None
        said = description(model, graphs, context_length, target, precision, not graph_only)
        seed = weights.seed if isinstance(weights, Fresh) and not graph_only else None
        said |= {"fresh_seed": seed, "left_out": left_out, "verification": asdict(checked) if checked else None}
        said["spec_sha256"] = spec_hash
        sizes = write_manifest(folder, said, hashes)
    return ExportSummary(
        folder=out,
        form=model.form,
        files=sizes,
        weight_bytes=weight_bytes,
        parameters=said["parameters"],
        nodes={part: len(graph.graph) for part, graph in graphs.items()},
        fusions=graphs["cached" if "cached" in graphs else "logits"].meta["fusions"],
        stored=str(storage(model, precision)) if precision.blocks else None,
        left_out=left_out,
        seed=seed,
        verification=checked,
    )


def _demand_budget(budget: float | None, precision: Precision, verify: bool) -> None:
    """Raises UsageError for a budget that is none, or that nothing would be held against."""
    if budget is None:
        return
    if not (isfinite(budget) and budget > 0):
        raise UsageError(f"A budget of {budget:g} nats is none.", "say a number above 0, such as 0.1")
    if precision == FP32 or not verify:
        why = "float32 costs nothing" if precision == FP32 else "nothing is measured without a verification"
        raise UsageError(f"A budget of {budget:g} would do nothing: {why}.", "leave it out")
