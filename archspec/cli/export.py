"""archspec export"""

from __future__ import annotations

from pathlib import Path

import click

from .common import Progress, load, spec_argument


@click.command("export")
@spec_argument
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder to write.  [default: NAME-onnx]")
@click.option(
    "--weights", type=click.Path(path_type=Path), help="Trained weights: .safetensors, .gguf, or a folder with them."
)
@click.option("--no-verify", is_flag=True, help="Do not compare ONNX Runtime with PyTorch before the folder appears.")
@click.option("--force", is_flag=True, help="Replace a folder that an earlier export wrote.")
def command(
    spec: str,
    overrides: tuple[str, ...],
    output: Path | None,
    weights: Path | None,
    no_verify: bool,
    force: bool,
) -> None:
    """Export to ONNX (opset 23) and verify it against PyTorch.

    The folder holds the graphs, one file of weights that they share, the complete spec and archspec.json. It appears under its
    name only when it is whole and verified.

    \b
    Example:
      archspec export gpt2 -o gpt2-onnx
      archspec build smollm2-135m --weights model.gguf -o smollm2 && archspec export smollm2
    """
    arch = load(spec, overrides)
    out = output or Path(f"{arch.name}-onnx")
    with Progress() as progress:
        summary = arch.export(out, weights=weights, verify=not no_verify, overwrite=force, progress=progress)
    click.echo(summary)
