"""archspec limits"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .common import Lengths, echo_tables, format_option, load, precision_options, spec_argument

if TYPE_CHECKING:
    from archspec.exporters.tables import Format


@click.command("limits")
@spec_argument
@click.option(
    "--on", "where", metavar="DEVICE", required=True,
    help="h100, rtx-4090, … or what it can do: 24GiB,58GB/s,200GFLOPS.",
)  # fmt: skip
@click.option(
    "--context", type=Lengths(), metavar="N,...", default=(),
    help="Tokens of each sequence.  [default: 1024, and the longest there is]",
)  # fmt: skip
@click.option("--batch", type=click.IntRange(min=1), metavar="N", default=1, show_default=True, help="Sequences.")
@precision_options
@format_option
def command(
    spec: str,
    overrides: tuple[str, ...],
    where: str,
    context: tuple[int, ...],
    batch: int,
    numbers: dict[str, Any],
    fmt: Format,
) -> int:
    """Bound the speed on a device, before anything is built: no runtime is faster than this.

    A prompt takes its FLOPs at the device's peak, a token its bytes at the memory's bandwidth, whichever is longer; what share of
    such limits an export reaches, `archspec bench` measures. The exit code is 1 where weights and cache do not fit the device at
    one of the contexts.

    \b
    Example:
      archspec limits llama-3.1-8b --on h100 --precision bf16
      archspec limits llama-3.1-8b --on rtx-4090 --precision int4 --compute fp16 --context 1024,8192 --batch 4
      archspec limits gpt2 --on 16GiB,50GB/s,150GFLOPS
    """
    from archspec.exporters.limit_tables import tables

    arch = load(spec, overrides)
    found = arch.limits(where, contexts=context, batch=batch, **numbers)
    echo_tables(tables(found), fmt, found.record())
    return 0 if all(limit.left >= 0 for limit in found.limits) else 1
