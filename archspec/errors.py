"""Errors that know their exit code.

1: the spec (or the file) is at fault. 2: the command line is. 3: a precision is too coarse. 70: archspec is at fault.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from archspec.diagnostics import Diagnostic

#: Options of the command line that are not called the same in Python.
IN_PYTHON = {
    "-n": "max_new_tokens", "--force": "overwrite=True", "--no-verify": "verify=False", "--no-weights": "graph_only=True",
    "--all-logits": "last_only=False", "--asymmetric": "symmetric=False", "--as": "layout", "--ids": "prompts",
    "--start": "decoder_start", "--slide": "slide=True", "--check": "check=True", "--cuda-graph": "cuda_graph=True",
    "--classify": "forward", "--fill": "fill_mask",
    "--allow-ignored": "--allow-ignored",  # the command line's alone
}  # fmt: skip
_OPTION = re.compile(
    r"(?<![\w-])(?:(?P<set>--set [\w.]+=[^\s,;)]+)|(?P<keep>--keep [\w.*]+(?: --keep [\w.*]+)*)"
    r"|(?P<one>-n|--[a-z][a-z-]*)(?![\w-]))"
)


class ArchspecError(Exception):
    """Base of every error that archspec raises on purpose. The message is a whole sentence for the person who reads it.

    remedy: what to do, in the options of the command line; each of its lines is a thing of its own. As text (`str`) an error
    has them in the words of Python: `overwrite=True` for `--force`.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message, self.remedy = message, remedy

    def __str__(self) -> str:
        return "\n  = ".join([self.message, *in_python(self.remedy or "").splitlines()])


def in_python(remedy: str) -> str:
    """The options of a remedy as arguments; commands, which stand in `backticks`, stay as they are."""

    def argument(found: re.Match[str]) -> str:
        if one := found["one"]:
            return IN_PYTHON.get(one, one.removeprefix("--").replace("-", "_"))
        listed = "[" + ", ".join(f'"{value}"' for value in found[0].split()[1::2]) + "]"
        return f"keep={listed}" if found["keep"] else f"load(…, {listed})"

    parts = remedy.split("`")
    return "`".join(part if i % 2 else _OPTION.sub(argument, part) for i, part in enumerate(parts))


class SpecError(ArchspecError):
    """A spec has errors: all of them, with their places."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n\n".join(d.render() for d in self.diagnostics))


class UsageError(ArchspecError):
    """The call is at fault: an option, an argument, a missing program."""

    exit_code = 2


class WeightsError(ArchspecError):
    """A weights file does not fit the architecture: missing, extra or misshapen tensors, all of them listed."""


class DeviceError(ArchspecError):
    """A device was demanded and is not to be had."""


class BudgetError(ArchspecError):
    """A narrower precision costs more than it may: the exported graph is right, and its numbers are too coarse for this model."""

    exit_code = 3


class VerificationError(ArchspecError):
    """An exported model does not compute what the built one does: a fault of archspec, never a warning."""

    exit_code = 70
