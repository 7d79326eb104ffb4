"""How wide a line of text is, near enough to lay boxes out without asking a font."""

from __future__ import annotations

from collections.abc import Iterable

#: Advance widths of Helvetica in thousandths of its size, by class; what is in no class is as wide as a digit.
_WIDTHS = (
    (222, "ijl'"), (278, " !,./:;I[]\\ft|·"), (333, "()-r`"), (389, "*"), (500, "Jcksvxyz"), (611, "FTZ"),
    (667, "ABEKPSVXY&"), (722, "CDHNRUw"), (778, "GOQ"), (833, "Mm"), (889, "%"), (944, "W"), (1015, "@"), (1000, "→"),
)  # fmt: skip
_WIDTH = {c: w for w, chars in _WIDTHS for c in chars}
SEPARATOR = " · "


def width(text: str, size: float, bold: bool = False) -> float:
    """Points that a line takes at a font size."""
    em = sum(_WIDTH.get(c, 556 if ord(c) < 0x2E80 else 1000) for c in text) / 1000
    return em * size * (1.06 if bold else 1.0)


def lines(facts: Iterable[str], size: float, room: float, beside: float = 0.0) -> tuple[str, ...]:
    """Facts side by side, on as many lines as they need; one that fits on no line is broken at its spaces.

    `beside`: what something else takes of the first line.
    """
    rows: list[str] = []
    for fact in facts:
        longer = f"{rows[-1]}{SEPARATOR}{fact}" if rows else fact
        if rows and width(longer, size) <= room - beside * (len(rows) == 1):
            rows[-1] = longer
            continue
        first, *rest = fact.split(" ")
        rows.append(first)
        for word in rest:
            if width(f"{rows[-1]} {word}", size) <= room - beside * (len(rows) == 1):
                rows[-1] += f" {word}"
            else:
                rows.append(word)
    return tuple(rows)
