"""archspec list"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .common import echo_tables, format_option

if TYPE_CHECKING:
    from archspec.exporters.tables import Format


@click.command("list")
@format_option
def command(fmt: Format) -> None:
    """List the zoo: published architectures, each with its total.

    \b
    Example:
      archspec list
      archspec list --format json
    """
    from archspec.api import load, zoo
    from archspec.compiler.parameters import count_parameters
    from archspec.exporters.tables import Column, Table
    from archspec.exporters.units import short

    columns = (
        Column("name", "name"),
        Column("form", "form"),
        Column("parameters", "parameters", short, True),
        Column("title", ""),
    )
    table = Table("", columns)
    for name in zoo():
        arch = load(name)
        title = arch.spec.about.title if arch.spec.about else None
        table.rows.append((name, arch.model.form.replace("_", "-"), count_parameters(arch.model).total, title))
    echo_tables([table], fmt, table.records())
