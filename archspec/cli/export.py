"""archspec export"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from archspec.errors import UsageError

from .common import Progress, echo_tables, load, other_dtype, precision_options, say, spec_argument

if TYPE_CHECKING:
    from archspec.exporters.onnx.emit import Target
    from archspec.exporters.onnx.export import ExportSummary
    from archspec.exporters.tables import Table


@click.command("export")
@spec_argument
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder to write.  [default: NAME-onnx]")
@click.option(
    "--weights", type=click.Path(path_type=Path), help="Trained weights: .safetensors, .gguf, or a folder with them."
)
@click.option("--seed", type=int, metavar="N", help="Of the initialisation, where no weights are read.  [default: 0]")
@click.option("--no-verify", is_flag=True, help="Do not compare ONNX Runtime with PyTorch before the folder appears.")
@click.option(
    "--target",
    type=click.Choice(["onnx", "ort"]),
    default="onnx",
    show_default=True,
    help="Operators: of opset 23 only, or ONNX Runtime's own fused ones as well.",
)
@click.option(
    "--all-logits", is_flag=True, help="The cached graph gives logits of every new token, not of the last alone."
)
@precision_options
@click.option("--budget", type=float, metavar="NATS", help="The mean divergence from float32 that is allowed.")
@click.option("--no-weights", is_flag=True, help="Write the graphs alone: of a size that no disk here holds, say.")
@click.option("--force", is_flag=True, help="Replace a folder that an earlier export wrote.")
def command(
    spec: str,
    overrides: tuple[str, ...],
    output: Path | None,
    weights: Path | None,
    seed: int | None,
    no_verify: bool,
    target: Target,
    all_logits: bool,
    numbers: dict[str, Any],
    budget: float | None,
    no_weights: bool,
    force: bool,
) -> None:
    """Export to ONNX (opset 23) and verify it against PyTorch.

    The folder holds the graphs, one file of weights that they share, the complete spec and archspec.json. It appears under its
    name only when it is whole and verified.

    \b
    Example:
      archspec export gpt2 -o gpt2-onnx
      archspec export smollm2-135m --weights model.gguf -o smollm2-onnx
      archspec export my-model --target ort --precision int4 --keep head
    """
    if no_weights and weights:
        raise UsageError(f"--no-weights and --weights {weights} contradict each other.", "say one of them")
    arch = load(spec, overrides)
    if all_logits and arch.model.form == "encoder":
        raise UsageError(f"--all-logits would do nothing: {arch.name} is an encoder, which gives all.", "leave it out")
    out = output or Path(f"{arch.name}-onnx")
    with Progress() as progress:
        summary = arch.export(
            out,
            weights=weights,
            seed=seed,
            verify=not no_verify,
            target=target,
            last_only=not all_logits,
            graph_only=no_weights,
            budget=budget,
            overwrite=force,
            progress=progress,
            **numbers,
        )
    echo_tables([_table(summary)], "text", None)
    if remark := other_dtype(arch.spec.dtype):
        say(remark)
    _remarks(summary, no_weights)
    click.echo(f"wrote {out}")


def _remarks(summary: ExportSummary, no_weights: bool) -> None:
    """What the weights are, what was left out, and how far the graphs are from PyTorch."""
    from archspec.exporters.fresh import untrained

    checked = summary.verification
    if summary.seed is not None:
        say(f"{untrained(summary.seed)}; trained ones come with --weights")
    for name, reason in summary.left_out.items():
        say(f"no {name}: {reason}")
    if no_weights:
        say("the graphs alone, not verified: their weights belong into model.onnx.data, where each says")
    elif checked is None:
        say("not verified: --no-verify")
    else:
        from archspec.exporters.onnx.costs import costs

        for line in checked.told():
            say(line)
        if table := costs(checked):
            echo_tables([table], "text", None)


def _table(summary: ExportSummary) -> Table:
    from archspec.exporters.tables import Column, Table
    from archspec.exporters.units import exact, size

    name = f"{summary.folder.name} ({summary.form.replace('_', '-')})"
    table = Table(
        f"{name}: {exact(summary.parameters)} parameters, {exact(summary.weight_bytes)} bytes of weights",
        (Column("file", "file"), Column("bytes", "bytes", exact, True), Column("size", "", size, True)),
    )
    table.rows += [(name, n, n) for name, n in summary.files.items()]
    nodes = ", ".join(f"{part} {n:,}" for part, n in summary.nodes.items())
    table.notes.append(f"nodes: {nodes}")
    table.notes += [str(fusion) for fusion in summary.fusions]
    if summary.stored:
        table.notes.append(summary.stored)
    return table
