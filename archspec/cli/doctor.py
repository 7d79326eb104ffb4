"""archspec doctor"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from archspec.errors import UsageError

from .common import color, fitted, remedy, say

if TYPE_CHECKING:
    from archspec.exporters.runtime.device import Device


@click.command("doctor")
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    help="Where to run the FOLDER.  [default: auto]",
)
def command(folder: Path | None, device: Device | None) -> None:
    """Say what is installed, which providers ONNX Runtime really has, and what is missing for CUDA.

    With an exported FOLDER: run it, and say where its nodes ran and what was copied between devices.

    \b
    Example:
      archspec doctor
      archspec doctor smollm2-onnx --device cuda
    """
    if folder is not None:
        _placements(folder, device or "auto")
        return
    if device is not None:
        raise UsageError("--device says where to run a FOLDER, and there is none", "archspec doctor DIR --device cuda")
    from archspec.exporters.runtime.doctor import doctor

    marks = {"ok": ("✓", "green"), "missing": ("✗", "red"), "note": ("·", "yellow")}
    for topic, group in groupby(doctor(), lambda fact: fact.topic):
        facts = list(group)
        width = max(len(fact.name) for fact in facts)
        click.echo(click.style(topic, bold=True), color=color(sys.stdout))
        for fact in facts:
            mark, hue = marks[fact.state]
            told = fitted(f"{mark} {fact.name.ljust(width)}  {fact.value}", "  ", " " * (width + 4))
            click.echo(told.replace(mark, click.style(mark, fg=hue), 1), color=color(sys.stdout))
            if fact.remedy:
                click.echo(remedy(fact.remedy, " " * (width + 6)), color=color(sys.stdout))


def _placements(folder: Path, device: Device) -> None:
    from archspec.exporters.runtime.folder import open_folder
    from archspec.exporters.runtime.placement import placements

    for place in placements(open_folder(folder), device):
        click.echo(click.style(place.graph, bold=True), color=color(sys.stdout))
        for provider, operators in place.nodes.items():
            kinds = ", ".join(f"{n} {kind}" for kind, n in operators.items())
            say(f"{provider}: {sum(operators.values())} nodes a step ({kinds})", "  ")
        click.echo(f"  copies between devices a step: {place.copies}")
