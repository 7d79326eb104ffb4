"""Scalars by the core schema of YAML 1.2, without what its readers disagree about."""

from __future__ import annotations

import re

from .nodes import NULL, Value

_INT = re.compile(r"[-+]?[0-9]+\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+\Z")
_SEXAGESIMAL = re.compile(r"[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?\Z")
_BASED = re.compile(r"[-+]?0[xXbBoO][0-9a-fA-F_]+\Z")
_GROUPED = re.compile(r"[-+]?[0-9]+(?:_[0-9]+)+\Z")
_NOT_FINITE = frozenset(
    sign + word for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN")
)
_WORDS: dict[str, Value] = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
    "": NULL,
    "~": NULL,
    "null": NULL,
    "Null": NULL,
    "NULL": NULL,
}
_LARGEST = 2**63 - 1


class AmbiguousError(ValueError):
    """A scalar that is refused: `what` is wrong with it, what to write instead, and the nearest meaning."""

    def __init__(self, what: str, remedy: str, value: Value) -> None:
        super().__init__(what)
        self.what, self.remedy, self.value = what, remedy, value


def resolve_plain(text: str) -> Value:
    """The value of an unquoted scalar. Raises `AmbiguousError`.

    >>> resolve_plain("1e-5"), resolve_plain("no"), resolve_plain("12")
    (1e-05, 'no', 12)
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _LEADING_ZERO.match(text):
        digits = text.replace("_", "")
        raise AmbiguousError(
            f"{text} is octal to some readers of YAML and decimal to others",
            f'write {int(digits)}, or "{text}" in quotes to mean the text',
            int(digits),
        )
    if _INT.match(text):
        return _integer(text)
    if _FLOAT.match(text):
        return _float(text)
    return _refused(text)


def _integer(text: str) -> int:
    if len(text) > 20 or abs(int(text)) > _LARGEST:
        raise AmbiguousError(f"{_short(text)} does not fit into 64 bits", "write a smaller number", 1)
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise AmbiguousError(f"{_short(text)} is too large for a float", "write a smaller number", 1.0)
    return value


def _refused(text: str) -> Value:
    if _SEXAGESIMAL.match(text):
        raise AmbiguousError(
            f"{_short(text)} is a number in base 60 to some readers of YAML and text to others",
            f'put it in quotes: "{_short(text)}"',
            text,
        )
    if _BASED.match(text):
        raise AmbiguousError(
            f"{_short(text)} is a number to some readers of YAML and text to others", "write it in decimal", 1
        )
    if _GROUPED.match(text):
        raise AmbiguousError(
            f"{_short(text)} is a number to some readers of YAML and text to others",
            f"write {_short(text.replace('_', ''))}",
            1,
        )
    if text in _NOT_FINITE:
        raise AmbiguousError(f"{text} is not a number that a model can use", "write a finite number, or `none`", 1.0)
    return text


def _short(text: str) -> str:
    return text if len(text) <= 24 else text[:20] + "…"
