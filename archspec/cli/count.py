"""archspec count"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from archspec.errors import UsageError

from .common import echo_tables, format_option, load, other_dtype, precision_options, say, spec_argument

if TYPE_CHECKING:
    from archspec.exporters.tables import Format

Size = click.IntRange(min=1)


@click.command("count")
@spec_argument
@click.option("--batch", type=Size, metavar="N", default=1, show_default=True, help="Sequences.")
@click.option(
    "--length", type=Size, metavar="N", default=None, help="New tokens of each.  [default: context_length, less --past]"
)
@click.option(
    "--past", type=click.IntRange(min=0), metavar="N", default=0, show_default=True, help="Tokens already in the cache."
)
@click.option(
    "--source-length",
    type=Size,
    metavar="N",
    default=None,
    help="Tokens of the encoder's input.  [default: context_length]",
)
@precision_options
@click.option(
    "--by",
    type=click.Choice(["component", "path"]),
    default="component",
    show_default=True,
    help="path: every stored tensor.",
)
@click.option(
    "--fits",
    "room",
    metavar="SIZE",
    help="Will it fit into 24GiB, 80GB, 512MiB? Exit code 1 where weights and KV cache do not.",
)
@click.option("--explain", is_flag=True, help="Print the formulas, with the numbers in them, and what is not counted.")
@format_option
def command(
    spec: str,
    overrides: tuple[str, ...],
    batch: int,
    length: int | None,
    past: int,
    source_length: int | None,
    numbers: dict[str, Any],
    by: str,
    room: str | None,
    explain: bool,
    fmt: Format,
) -> int:
    """Count parameters, FLOPs, KV cache and memory: exact, without torch, in milliseconds.

    Decoding one token after 1,000 others is --length 1 --past 1000. A precision is said as to export, and its bytes are what that
    writes.

    \b
    Example:
      archspec count gpt2
      archspec count gpt2 --batch 8 --length 1 --past 1023 --precision fp16
      archspec count llama-3.1-8b --precision int4 --compute fp16 --fits 24GiB
      archspec count gpt2 --format json | jq .parameters.total
    """
    from archspec.exporters.count_tables import paths, tables, tidy

    if explain and (by == "path" or fmt in ("json", "csv")):
        raise UsageError(
            "--explain adds formulas to the tables of components, in text and markdown",
            "leave it out; JSON has the formulas in any case",
        )
    if room and by == "path":
        raise UsageError("--fits adds a table to those of components", "leave out --by path")
    arch = load(spec, overrides)
    counts = arch.count(batch=batch, length=length, past=past, source_length=source_length, **numbers)
    fit = None if room is None else counts.fits(room)
    record = counts.record() | ({} if fit is None else {"fits": fit.record()})
    if by == "path":
        stored = list(arch.model.tensors())
        record["parameters"]["by_path"] = {t.path: t.size for t in stored}
        record["memory"]["weights_by_path"] = {t.path: counts.storage.bytes_of(t) for t in stored}
        echo_tables([paths(counts, stored)], fmt, record)
    else:
        context, n = arch.spec.context_length, counts.lengths
        most = max(n.past + n.length, n.source)
        if context and most > context:
            say(f"note: the spec's context ends at {context:,} tokens, and {most:,} are counted", err=True)
        remark = other_dtype(arch.spec.dtype)
        echo_tables([tidy(counts, fit)] if fmt == "csv" else tables(counts, explain, fit, remark), fmt, record)
    return int(fit is not None and not fit)
