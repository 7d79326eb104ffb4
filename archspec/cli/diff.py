"""archspec diff"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from archspec.errors import UsageError

from .common import echo_tables, format_option, load, precision_options, say, set_option

if TYPE_CHECKING:
    from archspec.exporters.tables import Format

Size = click.IntRange(min=1)


@click.command("diff")
@click.argument("first", metavar="A")
@click.argument("second", metavar="[B]", required=False)
@set_option
@click.option("--set-a", multiple=True, metavar="PATH=VALUE", help="Override a value of A alone.")
@click.option("--set-b", multiple=True, metavar="PATH=VALUE", help="Override a value of B alone.")
@click.option("--batch", type=Size, metavar="N", default=1, show_default=True, help="Sequences.")
@click.option("--length", type=Size, metavar="N", default=None, help="Tokens of each.  [default: the shorter context]")
@click.option(
    "--source-length",
    type=Size,
    metavar="N",
    default=None,
    help="Tokens of an encoder's input beside a decoder.  [default: the shorter context]",
)
@precision_options
@format_option
def command(
    first: str,
    second: str | None,
    overrides: tuple[str, ...],
    set_a: tuple[str, ...],
    set_b: tuple[str, ...],
    batch: int,
    length: int | None,
    source_length: int | None,
    numbers: dict[str, Any],
    fmt: Format,
) -> int:
    """Say in what two specs differ, by the paths that --set takes, and put their numbers side by side.

    Complete specs are compared: defaults and derived values count, and how they were written does not. Without B, it is A again,
    for --set-b to change. The exit code is 0 where nothing differs, and 1 where something does.

    \b
    Example:
      archspec diff gpt2 gpt2-medium
      archspec diff llama-3.1-8b --set-b decoder.attention.window=4096
      archspec diff mine.yaml gpt2 --precision int4 --length 1024
      archspec diff gpt2 gpt2-medium --format json | jq -r '.differences[].set'
    """
    from archspec.exporters.compare_tables import tables, tidy

    if second is None and not (set_a or set_b):
        raise UsageError(
            f"{first} is compared with nothing", "name a second spec, or say what to change: --set-b PATH=VALUE"
        )
    a, b = load(first, (*overrides, *set_a)), load(second or first, (*overrides, *set_b))
    compared = a.diff(b, batch=batch, length=length, source_length=source_length, **numbers)
    for arch, side in ((a, compared.a), (b, compared.b)):
        context, n = arch.spec.context_length, side.prefill.lengths
        most = max(n.length, n.source)
        if context and most > context:
            say(f"note: the context of {arch.name} ends at {context:,} tokens, and {most:,} are counted", err=True)
    echo_tables([tidy(compared)] if fmt == "csv" else tables(compared), fmt, compared.record())
    return int(bool(compared))
