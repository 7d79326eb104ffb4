"""The command line: one module a command, imported when it is called, so that `count` never waits for torch.

Exit codes: 0 fine, 1 the spec or a file is at fault, or something does not fit (`count --fits`, `limits`), 2 the command line is at
fault, 3 a precision is too coarse, 70 archspec is; 130, 141 and 143 where Ctrl-C, a reader that went away, or SIGTERM ended it.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from importlib import import_module
from keyword import iskeyword
from types import ModuleType
from typing import Any, NoReturn

import click

from archspec import __version__
from archspec.errors import ArchspecError

from .signals import Signals

#: Name -> what it does, in the order of a day's work.
COMMANDS = {
    "init": "Write a commented starter spec.",
    "check": "Check a spec and say all that is wrong with it.",
    "show": "Print the complete spec, every default and derived value filled in.",
    "count": "Count parameters, FLOPs, cache and memory, exactly.",
    "limits": "Say how fast it can be on a device, and whether it fits.",
    "diff": "Say in what two specs differ, and what it costs.",
    "diagram": "Draw the architecture.",
    "import": "Make a spec from a Hugging Face config or a GGUF file.",
    "build": "Build the PyTorch model and write its weights.",
    "export": "Export to ONNX and verify against PyTorch.",
    "run": "Run an exported model on ONNX Runtime.",
    "bench": "Measure an exported model, as shares of the machine's limits.",
    "list": "List the zoo: published architectures.",
    "schema": "Print the language as JSON Schema, for editors.",
    "doctor": "Say what is installed, what runs where, and what is missing.",
}

#: Commands that are over in a moment and never build a model.
QUICK = ("init", "check", "show", "count", "limits", "list", "schema")

#: The exit code of one that SIGINT ended; for SIGTERM it is 143.
INTERRUPTED = 130


def start_quickly() -> None:
    """Leave out what a command of a third of a second has no use for.

    Pydantic looks for plugins through importlib.metadata, whose import alone is a tenth of `archspec count`, and does so where
    plugins are disabled too; and collecting garbage while modules load finds none.
    """
    gc.disable()
    none = ModuleType("pydantic.plugin._loader")
    none.get_plugins = tuple  # type: ignore[attr-defined]
    sys.modules.setdefault(none.__name__, none)


class Commands(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = f"{name}_" if iskeyword(name) else name
        if name not in QUICK:
            gc.enable()
        command: click.Command = import_module(f"archspec.cli.{module}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            close = get_close_matches(args[0], COMMANDS, 1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="archspec")
def cli() -> None:
    """A declarative architecture compiler for Transformers.

    A YAML spec says what a Transformer is made of. archspec checks it, counts it exactly, draws it, builds it in PyTorch, exports
    it to ONNX and runs it on ONNX Runtime. A SPEC is a path, a folder that `build` wrote, or a name from `archspec list`.

    \b
    Example:
      archspec init my.yaml --like gpt2
      archspec check my.yaml && archspec count my.yaml
      archspec export my.yaml -o my-onnx
    """


def main() -> NoReturn:
    """Run the command line and exit."""
    _open_streams()
    start_quickly()
    signals = Signals()
    try:
        signals.watch()
        if any("\udc80" <= c <= "\udcff" for word in sys.argv for c in word):
            raise click.UsageError("An argument is not UTF-8 text.")
        result: Any = cli.main(standalone_mode=False)
        code = result if isinstance(result, int) else 0
        signals.rest()
    except (Exception, SystemExit) as error:  # noqa: BLE001  the boundary
        signals.rest()
        code = signals.code or _explained(error)
    if code == INTERRUPTED:
        _told("interrupted", code)
    with suppress(OSError, ValueError, AttributeError):  # what could not be written has been told, or cannot be
        sys.stdout.flush()
    sys.stdout = sys.stdout if code == 0 else None  # nothing is flushed a second time at exit
    gc.freeze()  # the end of the process clears it all away: to look for garbage first takes a fifth of a second
    sys.exit(code)


def _open_streams() -> None:
    """What was closed at the start is `/dev/null`: else a file of weights could get its number, and what is printed go there."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  as long as the process


def _explained(error: BaseException) -> int:
    """Say on stderr what went wrong, and give the exit code."""
    match error:
        case ArchspecError():
            return _report(error)
        case click.exceptions.Abort():
            return INTERRUPTED
        case click.ClickException():
            error.show()
            return error.exit_code
        case BrokenPipeError() | SystemExit():  # the reader went away: `archspec show x | head`; or click's word for it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141
        case OSError():  # a full disk, a closed terminal: what the machine could not do
            return _told(f"error: {error.strerror or error}" + (f": {error.filename}" if error.filename else ""), 2)
        case _:  # whatever is not ours to explain is a fault of archspec
            return _bug(error)


def _told(message: str, code: int) -> int:
    """Say it on stderr, if there is one, and give the exit code."""
    with suppress(OSError, ValueError):
        click.echo(message, err=True)
    return code


def _report(error: ArchspecError) -> int:
    from .common import color, echo_error

    echo_error(error, color(sys.stderr))
    return error.exit_code


def _bug(error: BaseException) -> int:
    import traceback

    click.echo("".join(traceback.format_exception(error)), err=True)
    click.echo(f"error: archspec itself is at fault: {type(error).__name__}: {error}", err=True)
    click.echo("  = please report the lines above, with the spec and the command", err=True)
    return 70


if __name__ == "__main__":
    main()
