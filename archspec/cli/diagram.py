"""archspec diagram"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from archspec.errors import UsageError

from .common import load, spec_argument, write_file

if TYPE_CHECKING:
    from archspec.exporters.diagram.pen import Level
    from archspec.exporters.diagram.render import Format


@click.command("diagram")
@spec_argument
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="File; its suffix chooses the format.  [default: NAME.svg]"
)
@click.option(
    "--format",
    "fmt",
    type=click.Choice(["dot", "mermaid", "pdf", "png", "svg"]),
    help="Where the suffix does not say.",
)
@click.option(
    "--level",
    type=click.Choice(["block", "model"]),
    help="Every block in full, or one box a layer.  [default: in full while that stays legible]",
)
def command(
    spec: str, overrides: tuple[str, ...], output: Path | None, fmt: Format | None, level: Level | None
) -> None:
    """Draw the architecture: SVG, PNG or PDF through Graphviz; DOT and Mermaid without it. `-o -` writes to stdout.

    \b
    Example:
      archspec diagram gpt2
      archspec diagram transformer-base -o figure.pdf
      archspec diagram my.yaml -o - --format mermaid
    """
    from archspec.exporters.diagram.render import SUFFIXES, MissingGraphviz

    arch = load(spec, overrides)
    to_stdout = str(output) == "-"
    suffix = output.suffix.lower() if output and not to_stdout else ""
    if fmt is None and suffix and suffix not in SUFFIXES:
        raise UsageError(f"{suffix} is no diagram format", f"one of {', '.join(SUFFIXES)}, or give --format")
    fmt = fmt or SUFFIXES.get(suffix) or ("dot" if to_stdout else "svg")
    path = output or Path(f"{arch.name}.{'mmd' if fmt == 'mermaid' else fmt}")
    try:
        data = arch.diagram(fmt, level=level)
    except MissingGraphviz as e:
        if to_stdout:
            raise
        instead = path.with_suffix(".dot")
        write_file(instead, e.dot.encode())
        raise UsageError(f"{e.message}; wrote {instead} instead", e.remedy) from e
    if to_stdout:
        sys.stdout.buffer.write(data)
    else:
        write_file(path, data)
        click.echo(f"wrote {path}")
