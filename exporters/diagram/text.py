"""How wide a line of text is, near enough to lay boxes out without asking a font."""

from __future__ import annotations

from collections.abc import Iterable

#: Advance widths in thousandths of the size: of DejaVu Sans, the widest font that a picture may be drawn in, or of Helvetica
#: where that is wider. What is in no class is as wide as a digit.
_WIDTHS = (
    (278, "ijl'"), (318, " ,.·I"), (337, "/:;\\|"), (411, "!()-[]frt"), (521, "*J`s"), (558, "Lcz?_–"), (592, "kvxy"),
    (616, "FTaeoθ"), (698, "ABEKPSVXYZα√"), (732, "CRU"), (787, "DGHNOQ&"), (838, "#+<=>^w~±×−"), (863, "M"), (989, "%Wm"),
    (1015, "@→…"),
)  # fmt: skip
_WIDTH = {c: w for w, chars in _WIDTHS for c in chars}
SEPARATOR = " · "


def width(text: str, size: float, bold: bool = False) -> float:
    """Points that a line takes at a font size."""
    em = sum(_WIDTH.get(c, 636 if ord(c) < 0x2E80 else 1000) for c in text) / 1000
    return em * size * (1.16 if bold else 1.0)


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
