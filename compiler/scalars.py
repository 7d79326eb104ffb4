"""Scalars by the core schema of YAML 1.2, without what its readers disagree about."""

from __future__ import annotations

import re

from .nodes import NULL, Value

_SEXAGESIMAL = r"[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?"
_BASED = r"[-+]?0[xXbBoO][0-9a-fA-F_]+"
_GROUPED = r"[-+]?[0-9]+(?:_[0-9]+)+"
_DIGITS = frozenset("0123456789")
_FLOAT = frozenset("0123456789.eE+-")
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
    """A scalar that is refused: `what` is wrong with it, and what to write instead."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy


def resolve_plain(text: str) -> Value:
    """The value of an unquoted scalar. Raises `AmbiguousError`.

    >>> resolve_plain("1e-5"), resolve_plain("no"), resolve_plain("12")
    (1e-05, 'no', 12)
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    digits = text[1:] if text[0] in "+-" else text
    if digits and _DIGITS.issuperset(digits.replace("_", "") or "_"):
        return _whole(text, digits)
    if _FLOAT.issuperset(text):
        return _float(text)
    return _refused(text)


def _whole(text: str, digits: str) -> Value:
    if digits[0] == "_" or digits[-1] == "_":
        return text
    if len(digits) > 1 and digits[0] == "0":
        meant = digits.replace("_", "").lstrip("0") or "0"
        raise AmbiguousError(
            f"{_short(text)} is octal to some readers of YAML and decimal to others",
            f'write {_short(meant)}, or "{_short(text)}" in quotes to mean the text',
        )
    return _refused(text) if "_" in digits else _integer(text)


def _integer(text: str) -> int:
    if len(text) > 20 or abs(int(text)) > _LARGEST:
        raise AmbiguousError(f"{_short(text)} does not fit into 64 bits", "write a smaller number")
    return int(text)


def _float(text: str) -> Value:
    try:
        value = float(text)
    except ValueError:  # +-1, 1.2.3, e5: words
        return text
    if value in (float("inf"), float("-inf")):
        raise AmbiguousError(f"{_short(text)} is too large for a float", "write a smaller number")
    return value


def _refused(text: str) -> Value:
    if text in _NOT_FINITE:
        raise AmbiguousError(f"{text} is not a number that a model can use", "write a finite number, or `none`")
    for pattern, what, remedy in (
        (_SEXAGESIMAL, "a number in base 60", f'put it in quotes: "{_short(text)}"'),
        (_BASED, "a number", "write it in decimal"),
        (_GROUPED, "a number", f"write {_short(text.replace('_', ''))}"),
    ):
        if re.fullmatch(pattern, text):
            raise AmbiguousError(f"{_short(text)} is {what} to some readers of YAML and text to others", remedy)
    return text


def _short(text: str) -> str:
    return text if len(text) <= 24 else text[:20] + "…"
