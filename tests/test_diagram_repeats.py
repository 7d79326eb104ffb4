"""Layers drawn once: expanding the picture gives back the layers, and as few blocks as possible are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from archspec.exporters.diagram.repeats import Layer, Part, Repeat, grouped
from archspec.ops.base import Op


class Named(Op):
    name: str


def drawn(names: str, owners: Sequence[int] = ()) -> str:
    """The drawing of layers named by one letter each: `5(w)f`, shared rows in brackets."""
    return "".join(map(written, grouped([Named(n) for n in names], owners)))


def written(part: Part) -> str:
    if isinstance(part, Layer):
        assert isinstance(part.op, Named)
        return part.op.name if part.borrowed is None else f"{part.op.name}{part.borrowed}"
    row = "".join(map(written, part.body))
    return f"{part.times}[{row}]" if part.shared else f"{part.times}({row})"


def expanded(parts: Sequence[Part], start: int = 0) -> Iterator[tuple[int, Op]]:
    """(index, operation) of every layer that the parts stand for; indices as the parts' own say."""
    for part in parts:
        if isinstance(part, Layer):
            yield part.first + start, part.op
        else:
            length = part.length // part.times
            for turn in range(part.times):
                yield from expanded(part.body, start + turn * length)


def test_runs_and_patterns() -> None:
    assert drawn("a") == "a"
    assert drawn("aaaa") == "4(a)"
    assert drawn("abab") == "2(ab)"
    assert drawn("aabb") == "2(a)2(b)"
    assert drawn("wwwwwf" * 5 + "wwww") == "5(5(w)f)4(w)"
    assert drawn("f" + "wwg" * 7) == "f7(2(w)g)"
    assert drawn("aabaaabaaaba") == "3(2(a)ba)"
    assert drawn("abc") == "abc"


def test_shared_weights() -> None:
    assert drawn("aaaa", [0, 0, 0, 0]) == "4[a]"
    assert drawn("abab", [0, 1, 0, 1]) == "2[ab]"
    assert drawn("aaaaaa", [0, 0, 0, 3, 3, 3]) == "2(3[a])"
    assert drawn("aaaaa", [0, 1, 2, 2, 2]) == "2(a)3[a]"
    assert drawn("aabaab", [0, 0, 2, 0, 0, 2]) == "2[2[a]b]"
    assert drawn("aba", [0, 1, 0]) == "aba0"


@given(st.text("abc", min_size=1, max_size=24))
def test_the_picture_stands_for_the_layers(names: str) -> None:
    parts = grouped([Named(n) for n in names])
    assert list(expanded(parts)) == [(i, Named(n)) for i, n in enumerate(names)]
    assert [p.first for p in parts] == [sum(q.length for q in parts[:i]) for i in range(len(parts))]


@given(st.text("ab", min_size=1, max_size=5), st.integers(2, 30))
def test_a_repeat_costs_nothing(row: str, times: int) -> None:
    def blocks(parts: Sequence[Part]) -> int:
        return sum(blocks(p.body) if isinstance(p, Repeat) else 1 for p in parts)

    once, often = (grouped([Named(n) for n in row * k]) for k in (1, times))
    assert blocks(often) <= blocks(once)
