"""archspec show"""

from __future__ import annotations

import click

from .common import fitted, load, spec_argument, terminal


@click.command("show")
@spec_argument
@click.option("--layers", is_flag=True, help="Print the layers with their indices instead.")
def command(spec: str, overrides: tuple[str, ...], layers: bool) -> None:
    """Print the complete spec: all defaults and derived values, one entry per run of equal layers.

    What is printed is itself a spec, and means the same.

    \b
    Example:
      archspec show gpt2
      archspec show gpt2 --set decoder.layers=2 > tiny.yaml
    """
    arch = load(spec, overrides)
    if layers:
        from archspec.compiler.show import show_layers

        text = show_layers(arch.spec).rstrip("\n")
        click.echo(fitted(text) if terminal() else text)
    else:
        click.echo(arch.show().rstrip("\n"))
