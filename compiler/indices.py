"""Which layers, in as few words as they need: `0–9`, `0, 2, …, 40`."""

from __future__ import annotations

from collections.abc import Iterable

#: Spans in equal steps of which so many are said as the first two and the last.
LONG = 5


def indices(spans: Iterable[range]) -> str:
    """`0–4, 6–10` or `1, 3, …, 41` of spans in order, counted from 0; neighbours are one."""
    joined: list[range] = []
    for span in spans:
        if joined and joined[-1].stop == span.start:
            joined[-1] = range(joined[-1].start, span.stop)
        else:
            joined.append(span)
    words: list[str] = []
    at = 0
    while at < len(joined):
        end = _progression(joined, at)
        first, *others = map(_span, joined[at:end])
        if len(others) + 1 < LONG:  # the next progression may begin with what follows
            words.append(first)
            at += 1
        else:
            words += [first, others[0], "…", others[-1]]
            at = end
    return ", ".join(words)


def _progression(spans: list[range], at: int) -> int:
    """The end of those from `at` that are equally long and equally far from one another."""
    end = at + 1
    step = spans[end].start - spans[at].start if end < len(spans) else 0
    while end < len(spans) and spans[end].start - spans[end - 1].start == step and len(spans[end]) == len(spans[at]):
        end += 1
    return end


def _span(span: range) -> str:
    return str(span.start) if len(span) == 1 else f"{span.start}–{span.stop - 1}"
