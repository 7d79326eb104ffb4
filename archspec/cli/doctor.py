"""archspec doctor"""

from __future__ import annotations

import click

from .common import color


@click.command("doctor")
def command() -> None:
    """Say what is installed, which providers ONNX Runtime really has, and what is missing for CUDA.

    \b
    Example:
      archspec doctor
    """
    import sys

    from archspec.exporters.runtime.doctor import doctor

    marks = {"ok": ("✓", "green"), "missing": ("✗", "red"), "note": ("·", "yellow")}
    facts = doctor()
    width = max(len(f.name) for f in facts)
    for fact in facts:
        mark, hue = marks[fact.state]
        click.echo(f"{click.style(mark, fg=hue)} {fact.name.ljust(width)}  {fact.value}", color=color(sys.stdout))
        if fact.remedy:
            click.echo(f"  {' ' * width}  {click.style('=', fg='blue')} {fact.remedy}", color=color(sys.stdout))
