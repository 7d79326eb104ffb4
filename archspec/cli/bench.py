"""archspec bench"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from archspec.errors import UsageError

from .common import Lengths, Progress, demand_place, echo_tables, format_option, write_file

if TYPE_CHECKING:
    from archspec.exporters.runtime.device import Device
    from archspec.exporters.tables import Format

Size = click.IntRange(min=1)


@click.command("bench")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--context", type=Lengths(), metavar="N,...",
    help="Tokens before the ones that are made.  [default: 128,1024, as far as the model goes]",
)  # fmt: skip
@click.option("--batch", type=Size, metavar="N", default=1, show_default=True, help="Sequences.")
@click.option("--new", type=Size, metavar="N", help="Steps that are measured after each prompt.  [default: 16]")
@click.option(
    "--rounds", type=click.IntRange(min=2), metavar="N", default=5, show_default=True, help="Turns of each engine."
)
@click.option(
    "--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True,
    help="cuda means CUDA and nothing else.",
)  # fmt: skip
@click.option("--threads", type=Size, metavar="N", help="Of one operation on the CPU.  [default: one a core]")
@click.option("--torch/--no-torch", default=True, show_default=True, help="Beside it: the same spec in PyTorch.")
@click.option(
    "--compile/--no-compile", "compiled", default=True, show_default=True,
    help="And by torch.compile, which takes a minute.",
)  # fmt: skip
@click.option("--json", "file", type=click.Path(path_type=Path), metavar="FILE", help="Write the record as well.")
@format_option
def command(
    folder: Path,
    context: tuple[int, ...] | None,
    batch: int,
    new: int | None,
    rounds: int,
    device: Device,
    threads: int | None,
    torch: bool,
    compiled: bool,
    file: Path | None,
    fmt: Format,
) -> None:
    """Measure an exported model: its speed, and how much of the machine's that is.

    Prompts and steps of decoding, time to the first token and peak memory; each speed as a share of what the machine can do,
    probed in the same run; beside it PyTorch, eager and compiled. Models that do not generate read whole texts.

    \b
    Example:
      archspec bench gpt2-onnx
      archspec bench gpt2-onnx --context 128,512 --threads 2 --json gpt2.json
    """
    from archspec.exporters.bench.measure import Setup, measure, settle
    from archspec.exporters.bench.report import record, tables, tidy
    from archspec.exporters.runtime.device import demand_threads
    from archspec.exporters.runtime.folder import open_folder

    demand_threads(threads)
    if compiled and not torch and _said("compiled"):
        raise UsageError("--compile is of PyTorch, which --no-torch leaves out", "say one of the two")
    if file:
        demand_place(file)  # before minutes are spent
    opened = open_folder(folder)
    plan = settle(opened, context, batch, new, rounds)
    setup = Setup(device, threads or os.cpu_count() or 1, torch, torch and compiled)
    with Progress() as progress:
        results = measure(opened, plan, setup, progress)
    found = record(results)
    echo_tables([tidy(results)] if fmt == "csv" else tables(results), fmt, found)
    if file:
        write_file(file, (json.dumps(found, indent=1) + "\n").encode())


def _said(name: str) -> bool:
    """Does the command line say it, or is it the default?"""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE
