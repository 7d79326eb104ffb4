"""Records: frozen values by their fields."""

from __future__ import annotations

import pickle

import pytest

from archspec.ops.record import Record


class Pair(Record):
    """Two numbers."""

    first: int
    second: int = 2


def test_fields_make_a_record() -> None:
    assert Pair(1) == Pair(1, 2) == Pair(second=2, first=1) == pickle.loads(pickle.dumps(Pair(1)))
    assert len({Pair(1), Pair(1, 2), Pair(1, 3)}) == 2
    assert Pair(1).replaced(second=5) == Pair(1, 5)


@pytest.mark.parametrize(
    ("values", "named"),
    [((1, 2, 3), {}), ((1,), {"first": 3}), ((1, 2), {"second": 3}), ((1,), {"third": 3}), ((), {"second": 2})],
)
def test_what_is_no_record_is_refused(values: tuple[int, ...], named: dict[str, int]) -> None:
    with pytest.raises((TypeError, AttributeError), match=r"fields first, second|'first'"):
        Pair(*values, **named)


def test_a_record_is_frozen() -> None:
    with pytest.raises(AttributeError, match="frozen"):
        Pair(1).first = 2
