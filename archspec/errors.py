"""Errors that know their exit code.

1: the spec (or the file) is at fault. 2: the command line is. 3: a precision is too coarse. 70: archspec is at fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from archspec.diagnostics import Diagnostic


class ArchspecError(Exception):
    """Base of every error that archspec raises on purpose. The message is a whole sentence for the person who reads it.

    remedy: what to do; each of its lines is a thing of its own.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message, self.remedy = message, remedy

    def __str__(self) -> str:
        return "\n  = ".join([self.message, *(self.remedy or "").splitlines()])


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
