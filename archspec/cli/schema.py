"""archspec schema"""

from __future__ import annotations

import json

import click


@click.command("schema")
def command() -> None:
    """Print the language as JSON Schema. An editor with it completes keys and marks mistakes while you type.

    \b
    Example:
      archspec schema > archspec.schema.json
      # the first line of a spec, for YAML language servers:
      # yaml-language-server: $schema=archspec.schema.json
    """
    from archspec.compiler.schema import json_schema

    click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
