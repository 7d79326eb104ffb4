"""What the commands share: options, loading a spec with its warnings, colour, and writing results."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from archspec.errors import ArchspecError, SpecError, UsageError

if TYPE_CHECKING:
    from archspec.api import Arch
    from archspec.exporters.tables import Format, Table

F = TypeVar("F", bound=Callable[..., Any])


def color(stream: IO[str]) -> bool:
    """May this stream have colours? Not with NO_COLOR, not into a pipe, not on a dumb terminal."""
    return (
        stream is not None and stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


set_option = click.option(
    "--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Override a value: decoder.layers=2. Repeatable."
)


def spec_argument(f: F) -> F:
    """The SPEC argument and `--set`."""
    return click.argument("spec", metavar="SPEC")(set_option(f))


class Precisions(click.Choice[str]):
    """Names of precisions; what one is called elsewhere is answered with it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            from archspec.compiler.precision import meant

            if (near := meant(value)) in self.choices:
                self.fail(f"{value!r} is not one of {', '.join(self.choices)}. Did you mean {near}?", param, ctx)
        return super().convert(value, param, ctx)


FLOATS = Precisions(["fp32", "fp16", "bf16"])


class Lengths(click.ParamType[tuple[int, ...]]):
    """128,1024"""

    name = "lengths"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        words = str(value).split(",")
        if not all(word.strip().isdecimal() and int(word) for word in words):
            self.fail(f"{value!r} is no list of lengths: say 128,1024", param, ctx)
        return tuple(map(int, words))


def other_dtype(dtype: str) -> str | None:
    """What to say of a spec's dtype that is not taken, since float32 is by default. Whoever gave --precision has chosen."""
    from archspec.compiler.precision import DTYPES

    source = click.get_current_context().get_parameter_source("precision")
    if source is not ParameterSource.DEFAULT or DTYPES[dtype] == "fp32":
        return None
    return f"the spec's dtype is {dtype}: --precision {DTYPES[dtype]}"


def precision_options(f: F) -> F:
    """`--precision`, `--compute`, `--block`, `--asymmetric` and `--keep`: what `compiler/precision.py` is asked for.

    The command gets them as one mapping, `numbers`: the arguments that say it in `Arch.count`, `Arch.export` and their like.
    """

    @wraps(f)
    def gathered(
        *, precision: str, compute: str | None, block: int | None, asymmetric: bool, keep: tuple[str, ...], **rest: Any
    ) -> Any:
        numbers = {
            "precision": precision,
            "compute": compute,
            "block": block,
            "symmetric": not asymmetric,
            "keep": keep,
        }
        return f(numbers=numbers, **rest)

    for option in (
        click.option(
            "--keep",
            multiple=True,
            metavar="PATTERN",
            help="Weights that stay out of int8 and int4: head, decoder.layers.0.*; may be repeated.",
        ),
        click.option("--asymmetric", is_flag=True, help="Each block of int8 and int4 has a zero of its own."),
        click.option(
            "--block",
            type=int,
            metavar="N",
            help="Weights of int8 and int4 that share a scale: 16 to 256.  [default: 32]",
        ),
        click.option(
            "--compute",
            type=FLOATS,
            help="What int8 and int4 are computed in.  [default: fp32]",
        ),
        click.option(
            "--precision",
            type=Precisions(["fp32", "fp16", "bf16", "int8", "int4"]),
            default="fp32",
            show_default=True,
            help="Of the weights; fp16 and bf16 are computed in too.",
        ),
    ):  # the last one stands first
        gathered = option(gathered)
    return cast("F", gathered)


def fitted(text: str, indent: str = "", hanging: str = "  ") -> str:
    """A text in lines that fit the terminal, at most 120 wide; what goes over hangs below its own line, and words stay whole."""
    width = min(shutil.get_terminal_size().columns, 120)
    lines = []
    for line in text.splitlines():
        below = indent + " " * (len(line) - len(line.lstrip())) + hanging
        lines += textwrap.wrap(
            indent + line, width, subsequent_indent=below, break_on_hyphens=False, break_long_words=False
        ) or [""]
    return "\n".join(lines)


def terminal() -> int | None:
    """The columns of the terminal that stdout is, or that COLUMNS states; None in a pipe, whose reader wants a row in a line."""
    return shutil.get_terminal_size((0, 0)).columns or None


def remedy(text: str, indent: str) -> str:
    """= what to do, a line each"""
    mark = click.style("=", fg="blue", bold=True)
    return "\n".join(fitted(f"= {line}", indent).replace("=", mark, 1) for line in text.splitlines())


def say(text: str, indent: str = "", err: bool = False) -> None:
    """A sentence, in lines that fit the terminal."""
    click.echo(fitted(text, indent), err=err)


def format_option(f: F) -> F:
    """`--format text|json|csv|markdown`."""
    return click.option(
        "--format", "fmt", type=click.Choice(["text", "json", "csv", "markdown"]), default="text", show_default=True,
        help="How the tables are written.",
    )(f)  # fmt: skip


def load(spec: str, overrides: Sequence[str] = ()) -> Arch:
    """Load a spec; its warnings go to stderr."""
    from archspec.api import load as load_arch

    arch = load_arch(spec, overrides)
    for warning in arch.warnings:
        click.echo(warning.render(color(sys.stderr), fitted) + "\n", err=True, color=color(sys.stderr))
    return arch


def echo_error(error: ArchspecError, colored: bool) -> None:
    """An error as its reader should see it, on stderr."""
    if isinstance(error, SpecError):
        text = "\n\n".join(d.render(colored, fitted) for d in error.diagnostics)
        n = len(error.diagnostics)
        text += f"\n\n{n} errors" if n > 1 else ""
    else:
        text = fitted(f"error: {error.message}").replace("error", click.style("error", fg="red", bold=True), 1)
        if error.remedy:
            text += "\n" + remedy(error.remedy, "  ")
    click.echo(text, err=True, color=colored)


def echo_tables(tables: Sequence[Table], fmt: Format, record: Any) -> None:
    """Tables to stdout in a format; as text they fit the terminal where their last column can be wrapped."""
    from archspec.exporters.tables import render

    on = color(sys.stdout)
    bold = (lambda s: click.style(s, bold=True)) if on else str
    dim = (lambda s: click.style(s, dim=True)) if on else str
    click.echo(render(tables, fmt, record, bold, dim, terminal()), color=on)


def write_file(path: Path, data: bytes, *, overwrite: bool = True) -> None:
    """Write a whole file or nothing: a temporary beside it, then a rename.

    Raises:
        UsageError: the place cannot be written, or is taken and `overwrite` is off.
    """
    if path.exists() and not overwrite:
        raise UsageError(f"{path} is there already", "choose another name, or give --force")
    demand_place(path)
    from archspec.exporters.files import refusals, whole_file

    with refusals(path), whole_file(path) as file:
        file.write(data)


def demand_place(path: Path) -> None:
    """Raises UsageError for a file that could not be written: said before there is something to write."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder", "give a file name")
    if not path.parent.is_dir():
        raise UsageError(
            f"{path} cannot be written: there is no folder {path.parent}", "make it, or choose another place"
        )
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"{path} cannot be written: permission is denied", "choose a place that you may write to")


class Progress:
    """One line on stderr that says what is being done and how far it is; silent where stderr is not a terminal."""

    def __init__(self) -> None:
        self.live = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        if self.live:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeElapsedColumn(),
            )
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
        return self

    def __call__(self, what: str, done: float) -> None:
        """`done` from 0 to 1."""
        if self._bar is None:
            return
        if self._task is None:
            self._task = self._bar.add_task(what, total=1.0)
        self._bar.update(self._task, description=what, completed=done)

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.stop()
