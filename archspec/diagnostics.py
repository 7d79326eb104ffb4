"""Diagnostics: what is wrong, where it stands, and what to do about it.

A diagnostic has one code (`CODES` says what each means), a place in a file, a sentence with the values in it, and a remedy.
It renders as a compiler's message does, or as a record for other programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

Severity = Literal["error", "warning"]

#: Every code and the condition it stands for. `tests/diagnostics/` shows each at work.
CODES: dict[str, str] = {
    # the file
    "A001": "there is no such file, or no such spec in the zoo",
    "A002": "the file cannot be read",
    "A003": "not a regular file",
    "A004": "the file is too large for a spec",
    "A005": "the file is not UTF-8 text",
    "A006": "the file says nothing",
    "A007": "not YAML",
    "A008": "more than one document in a file",
    "A009": "a key is written twice",
    "A010": "a tag or a directive",
    "A011": "an alias with no anchor, inside itself, or expanding without end",
    "A012": "nested too deep, or too many values",
    "A013": "a number that readers of YAML disagree about",
    "A014": "an empty section",
    "A015": "a key that is not a word",
    "A016": "the file is not a mapping",
    "A017": "a config.json and no spec",
    "A020": "`extends` leads back to itself, or too far",
    "A021": "`extends` is no zoo name and no path",
    "A022": "`--set` is not `path=value`",
    "A023": "`--set` names a path that is not in the language, or an index that is not in the list",
    # the form
    "A101": "an unknown key",
    "A102": "a required key is missing",
    "A103": "a value of the wrong type",
    "A104": "a value out of its range",
    "A105": "not one of the legal values",
    "A106": "an unknown kind",
    "A107": "the kind is not stated",
    "A108": "not a scale, or not a ratio",
    "A109": "another version of the language",
    "A110": "neither an encoder nor a decoder",
    # the numbers of a layer
    "A201": "d_model does not split into the heads, and head_dim is derived",
    "A202": "kv_heads does not divide heads",
    "A203": "more key/value heads than query heads",
    "A204": "rope turns pairs, and its dim is odd",
    "A205": "rope turns more channels than a head has",
    "A206": "a norm's eps is zero in the weights' precision",
    "A207": "a scale names head_dim where there is no head",
    "A208": "an unusual scale of the attention scores",
    "A209": "a scale that is zero or not a number",
    "A210": "an eps that outweighs what it is added to",
    # positions and masks
    "A301": "nothing tells the model the order of its tokens",
    "A302": "a learned position table without context_length",
    "A303": "position enters twice",
    "A304": "a position in cross attention",
    "A305": "a window that covers the whole context",
    "A306": "a mask of the other stack",
    "A307": "a rope scaling for contexts that the model does not have",
    "A308": "a yarn scaling that does not end at the context",
    "A309": "a ramp of frequencies that runs backwards",
    "A310": "longrope needs a divisor for each frequency",
    "A311": "a q/k norm after a rotation that is not there, or that it cannot see",
    "A312": "one relative table for layers of different shapes",
    "A313": "a sinusoidal position needs an even d_model",
    "A314": "relative buckets that distances cannot be spread over",
    "A315": "a rope scaling that its rotation does not allow",
    "A316": "a temperature that never changes",
    # wiring
    "A401": "parallel sublayers without an input norm, or with two skip connections",
    "A402": "parallel with cross attention",
    "A403": "pre-norm without a final norm",
    "A404": "post-norm with a final norm",
    "A405": "parallel with a sublayer missing",
    "A406": "an empty layer",
    "A407": "shared weights with nothing to share",
    "A408": "a branch that never reaches the sum",
    "A409": "a norm of a branch, or a gate of a residual, where there is none",
    "A410": "more layers than any model has",
    # feed-forward
    "A501": "more experts for a token than there are",
    "A502": "groups of experts that cannot be chosen from",
    "A503": "a router whose only weight is always 1",
    "A504": "weights of experts that add up to anything",
    "A505": "a single expert",
    "A506": "a width that is not whole",
    "A507": "groups of experts that are all kept",
    "A508": "experts in a latent no narrower than the model",
    "A509": "a placement inside an expert",
    "A510": "a router whose score does not go with its other keys",
    "A511": "a clamp where nothing is clamped",
    # stacks and heads
    "A601": "one stack has nothing to share its embedding with",
    "A602": "cross attention without two stacks",
    "A603": "a head that reads the first token of a decoder",
    "A604": "an encoder that no decoder layer reads",
    "A605": "nothing to take cross attention from",
    # overrides
    "A701": "an override that changes nothing",
    "A702": "another kind starts afresh and misses fields",
    "A703": "a part of something that is `none` above",
    "A704": "`block` with one stack",
    # totals
    "A801": "the totals under `expect` are missed",
}


class Place(NamedTuple):
    """A span of a file. Lines and columns count from 1; line 0 is the file as a whole."""

    file: str
    line: int = 0
    column: int = 0
    length: int = 1
    text: str = ""  # the whole line

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


_WIDEST = 140  # a longer line is cut around the caret
_RED, _YELLOW, _BLUE, _OFF = "\x1b[1;31m", "\x1b[1;33m", "\x1b[1;34m", "\x1b[0m"


class Diagnostic(NamedTuple):
    """One fault of a spec, written for its author.

    `message` says what is wrong with the values in it; `notes` say more, one line each; `remedy` says what to do.
    """

    code: str
    message: str
    place: Place | None = None
    remedy: str | None = None
    notes: tuple[str, ...] = ()
    severity: Severity = "error"

    def __str__(self) -> str:
        return self.render()

    def render(self, color: bool = False, fit: Callable[[str], str] = str) -> str:
        """The diagnostic as lines of text, the span underlined with carets.

        fit: breaks a sentence into lines. The place, the source line and its carets stay whole.
        """
        paint, blue, off = ("", "", "")
        if color:
            paint, blue, off = (_RED if self.severity == "error" else _YELLOW), _BLUE, _OFF
        label = f"{self.severity}[{self.code}]"
        lines = [fit(f"{label}: {self.message}").replace(label, f"{paint}{label}{off}", 1)]
        margin = ""
        if self.place is not None:
            lines.append(f"{blue}  -->{off} {self.place}")
            if self.place.line:
                number = f"{self.place.line:>2}"
                margin = " " * (len(number) - 2)
                text, before, carets = _excerpt(self.place)
                lines.append(f"{blue}{number} |{off} {text}")
                lines.append(f"{blue}{' ' * len(number)} |{off} {before}{paint}{carets}{off}")
        for extra in (*self.notes, *([self.remedy] if self.remedy else [])):
            lines.append(fit(f"{margin}   = {extra}").replace("=", f"{blue}={off}", 1))
        return "\n".join(lines)

    def record(self) -> dict[str, Any]:
        """The same for programs: plain strings and integers."""
        place = self.place or Place("")
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "file": place.file,
            "line": place.line,
            "column": place.column,
            "length": place.length,
            "notes": list(self.notes),
            "remedy": self.remedy,
        }


def _excerpt(place: Place) -> tuple[str, str, str]:
    """The line, the blanks before the carets, and the carets; a long line is cut around them."""
    text, start = place.text, place.column - 1
    length = max(1, min(place.length, len(text) - start))
    if len(text) > _WIDEST:
        left = max(0, start - _WIDEST // 3)
        right = left + _WIDEST
        head, tail = ("…" if left else ""), ("…" if right < len(text) else "")
        length = max(1, min(length, right - start))
        text, start = head + text[left:right] + tail, start - left + len(head)
    # a tab stays a tab, so that the carets stand under the span whatever the terminal makes of it
    before = "".join("\t" if c == "\t" else " " for c in text[:start])
    return "".join(c if c == "\t" or c.isprintable() else "·" for c in text), before, "^" * length


def nearest(word: str, options: Iterable[str]) -> str | None:
    """The option that `word` was most likely meant to be, if one is near."""
    from difflib import get_close_matches  # only where something is wrong already

    folded = {option.lower().replace("-", "_"): option for option in options}
    close = get_close_matches(word.lower().replace("-", "_"), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def listing(words: Iterable[str]) -> str:
    """`a`, `b` and `c`"""
    quoted = [f"`{word}`" for word in words]
    return _joined(quoted, "and")


def either(words: Iterable[str]) -> str:
    """a, b or c"""
    return _joined(list(words), "or")


def _joined(words: list[str], last: str) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
