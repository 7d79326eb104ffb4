"""archspec check"""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from archspec.errors import ArchspecError, SpecError

from .common import color, echo_error, load, set_option


@click.command("check")
@click.argument("specs", metavar="SPEC...", nargs=-1, required=True)
@set_option
@click.option("--json", "as_json", is_flag=True, help="Print the diagnostics as JSON records.")
def command(specs: tuple[str, ...], overrides: tuple[str, ...], as_json: bool) -> int:
    """Check specs: every error of a file at once, each with its place, the reason and what to do.

    \b
    Example:
      archspec check my.yaml
      archspec check gpt2 --set decoder.attention.kv_heads=5
    """
    code = 0
    records: list[dict[str, Any]] = []
    for spec in specs:
        try:
            code = max(code, _check(spec, overrides, records if as_json else None))
        except ArchspecError as e:
            code = max(code, e.exit_code)
            if not as_json:
                echo_error(e, color(sys.stderr))
            elif isinstance(e, SpecError):
                records += [d.record() for d in e.diagnostics]
            else:
                records.append({"code": None, "severity": "error", "message": e.message, "remedy": e.remedy})
    if as_json:
        click.echo(json.dumps(records, indent=2, ensure_ascii=False))
    return code


def _check(spec: str, overrides: tuple[str, ...], records: list[dict[str, Any]] | None) -> int:
    if records is not None:
        from archspec.api import load as load_arch

        records += [w.record() for w in load_arch(spec, overrides).warnings]
        return 0
    arch = load(spec, overrides)
    from archspec.compiler.parameters import count_parameters
    from archspec.exporters.units import many

    warned = len(arch.warnings)
    total = f"{count_parameters(arch.model).total:,} parameters"
    met = " as expected" if arch.spec.expect and arch.spec.expect.parameters else ""
    doubts = f", {many(warned, 'warning')}" if warned else ""
    click.echo(f"{arch.name}: ok, {arch.model.form.replace('_', '-')}, {total}{met}{doubts}")
    return 0
