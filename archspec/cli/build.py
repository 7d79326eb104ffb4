"""archspec build"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from archspec.errors import UsageError

from .common import FLOATS, Progress, load, say, spec_argument

if TYPE_CHECKING:
    from archspec.compiler.precision import Compute


@click.command("build")
@spec_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder to write: spec.yaml and model.safetensors.",
)
@click.option(
    "--weights",
    type=click.Path(path_type=Path),
    help="Read trained weights: .safetensors, .gguf, or a folder with them.",
)
@click.option(
    "--precision",
    type=FLOATS,
    help="Of the written weights.  [default: that of the file they are read from, or the spec's]",
)
@click.option(
    "--seed",
    type=int,
    metavar="N",
    help="Of the initialisation, where no weights are read.  [default: 0]",
)
@click.option("--as", "layout", type=click.Choice(["archspec", "hf"]), default="archspec", show_default=True,
              help="hf: a checkpoint with Hugging Face's names and config.json.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace a folder that an earlier build wrote.")
def command(
    spec: str,
    overrides: tuple[str, ...],
    output: Path,
    weights: Path | None,
    precision: Compute | None,
    seed: int | None,
    layout: str,
    force: bool,
) -> None:
    """Build the PyTorch model and write its weights beside the complete spec.

    Weights are initialised as the spec says, or read from a trained checkpoint. Tensors that are missing, left over or of
    another shape are errors that list them. A tokenizer that comes with the weights is written too.

    \b
    Example:
      archspec build gpt2 -o gpt2-fresh
      archspec build smollm2-135m --weights model.gguf -o smollm2
      archspec build all-minilm-l6-v2 --weights model.safetensors -o minilm
    """
    from archspec.compiler.precision import TORCH
    from archspec.exporters.weights.folder import write_folder

    arch = load(spec, overrides)
    if seed is not None and (found := arch.checkpoint(weights)):
        raise UsageError(f"--seed {seed} would do nothing: the weights are those of {found}.", "leave it out")
    dtype = TORCH[precision] if precision else None
    with Progress() as progress:
        summary = write_folder(
            arch,
            output,
            weights=weights,
            dtype=dtype,
            seed=seed or 0,
            layout=layout,
            overwrite=force,
            progress=progress,
        )
    say(str(summary))
