"""archspec count"""

from __future__ import annotations

import click

from .common import Dtype, echo_tables, format_option, load, say, spec_argument

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
@click.option(
    "--dtype", type=Dtype(), default="float32", show_default=True,
    help="Of weights, cache and activations.",
)  # fmt: skip
@click.option(
    "--by",
    type=click.Choice(["component", "path"]),
    default="component",
    show_default=True,
    help="path: every stored tensor.",
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
    dtype: str,
    by: str,
    explain: bool,
    fmt: str,
) -> None:
    """Count parameters, FLOPs, KV cache and memory: exact, without torch, in milliseconds.

    Decoding one token after 1,000 others is --length 1 --past 1000.

    \b
    Example:
      archspec count gpt2
      archspec count gpt2 --batch 8 --length 1 --past 1023 --dtype float16
      archspec count gpt2 --format json | jq .parameters.total
    """
    from archspec.exporters.count_tables import paths, tables, tidy

    arch = load(spec, overrides)
    counts = arch.count(batch=batch, length=length, past=past, source_length=source_length, dtype=dtype)  # type: ignore[arg-type]
    record = counts.record()
    if by == "path":
        table = paths(arch.model.tensors(), arch.name)
        record["parameters"]["by_path"] = {r["path"]: r["parameters"] for r in table.records()}
        echo_tables([table], fmt, record)  # type: ignore[arg-type]
    else:
        context, n = arch.spec.context_length, counts.lengths
        most = max(n.past + n.length, n.source)
        if context and most > context:
            say(f"note: the spec's context ends at {context:,} tokens, and {most:,} are counted", err=True)
        echo_tables([tidy(counts)] if fmt == "csv" else tables(counts, explain), fmt, record)  # type: ignore[arg-type]
