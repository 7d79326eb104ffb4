"""Rows of token ids from what a program has at hand: lists, arrays, tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import Any, Literal, Protocol

from archspec.errors import UsageError

Ids = Sequence[Sequence[int]]
Rows = Literal["prompts", "source", "texts", "token types"]


class Listed(Protocol):
    """An array of numpy, a tensor of torch: what lies in it can be listed."""

    def tolist(self) -> Any: ...


#: B rows of token ids: lists of any lengths, an array or a tensor B T, or a list of such of one dimension.
Given = Sequence[Sequence[int] | Listed] | Listed


def rows_of(given: Given, what: Rows) -> list[list[int]]:
    """B rows of token ids as plain numbers. Raises UsageError, which names the row, for what is none."""
    if isinstance(given, Mapping):
        keys = ", ".join(map(str, given))
        raise UsageError(f"the {what} are a mapping with {keys}", "give its rows of token ids")
    rows = _listed(given)
    if isinstance(rows, str):
        raise _text(f"the {what} are")
    if not isinstance(rows, Iterable):
        raise UsageError(f"the {what} are {rows!r}, and rows of token ids are wanted", "write [[1, 2, 3]]")
    return [_row(_listed(row), i, what) for i, row in enumerate(rows)]


def _row(row: Any, i: int, what: Rows) -> list[int]:
    if isinstance(row, str):
        raise _text(f"row {i} of the {what} is")
    if _number(row) is not None:
        raise UsageError(f"the {what} are one list of numbers, and a row for each text is wanted", "write [[1, 2, 3]]")
    if not isinstance(row, Iterable):
        raise UsageError(f"row {i} of the {what} is {row!r}, and token ids are wanted", "write [[1, 2, 3]]")
    numbers = []
    for value in row:
        number = _number(value)
        if isinstance(value, str):
            raise _text(f"row {i} of the {what} holds")
        if number is None:
            kind = f"{value!r}" if isinstance(value, float | bool) else f"a {type(value).__name__}"
            raise UsageError(f"row {i} of the {what} holds {kind}, which is no token id", "token ids are whole numbers")
        numbers.append(number)
    return numbers


def _listed(given: Any) -> Any:
    return given.tolist() if hasattr(given, "tolist") else given


def _number(value: Any) -> int | None:
    """A whole number as Python's own; None: it is something else."""
    try:
        return None if isinstance(value, bool) else index(value)
    except TypeError:
        return None


def _text(which: str) -> UsageError:
    return UsageError(
        f"{which} text, and token ids are wanted", "runtime.text.encode(…) gives them; runtime.write(…) takes text"
    )
