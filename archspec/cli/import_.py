"""archspec import"""

from __future__ import annotations

from pathlib import Path

import click

from .common import write_file


@click.command("import")
@click.argument("checkpoint", metavar="DIR|CONFIG.JSON|FILE.GGUF", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The spec to write.  [default: stdout]")
@click.option(
    "--allow-ignored", multiple=True, metavar="KEY", help="A key of the config that may be left out. Repeatable."
)
@click.option("--force", is_flag=True, help="Replace the output file.")
def command(checkpoint: Path, output: Path | None, allow_ignored: tuple[str, ...], force: bool) -> None:
    """Make a spec from a Hugging Face config.json, or from the metadata of a GGUF file.

    Every key of the config is read, known to change nothing, or an error that names it. `archspec build` then loads the weights.

    \b
    Example:
      archspec import Llama-3.2-1B -o llama.yaml
      archspec build llama.yaml --weights Llama-3.2-1B -o llama
    """
    from archspec.exporters.weights.imports import spec_of

    text = spec_of(checkpoint, allow_ignored)
    if output is None:
        click.echo(text, nl=False)
        return
    write_file(output, text.encode(), overwrite=force)
    click.echo(f"wrote {output}")
