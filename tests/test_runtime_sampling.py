"""The laws of sampling, and its numbers against a brute-force reading of the definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archspec.errors import ArchspecError, UsageError
from archspec.exporters.runtime.sampling import Sampling, probabilities, sample

LOGITS = st.lists(st.integers(-8, 8).map(lambda n: n / 4), min_size=1, max_size=12)  # with ties
TEMPERATURE = st.sampled_from([0.25, 1.0, 3.0])


def draw(row: list[float], sampling: Sampling, times: int) -> list[int]:
    logits, streams = np.array([row], np.float32), sampling.streams(1)
    return [int(sample(logits, sampling, streams)[0]) for _ in range(times)]


def by_hand(row: list[float], temperature: float, k: int | None, p: float | None) -> list[float]:
    """The docstring of `Sampling`, one token after the other."""
    order = sorted(range(len(row)), key=lambda i: (-row[i], i))[:k]
    weight = {i: np.exp((row[i] - max(row)) / temperature) for i in order}
    chance = {i: w / sum(weight.values()) for i, w in weight.items()}
    kept: list[int] = []
    for i in order:
        if p is not None and kept and sum(chance[j] for j in kept) >= p:
            break
        kept.append(i)
    total = sum(chance[i] for i in kept)
    return [chance[i] / total if i in kept else 0.0 for i in range(len(row))]


@given(LOGITS, TEMPERATURE, st.none() | st.integers(1, 14), st.none() | st.sampled_from([0.111, 0.437, 0.913, 1.0]))
def test_probabilities_are_what_the_definition_says(row: list[float], t: float, k: int | None, p: float | None) -> None:
    got = probabilities(np.array([row], np.float32), Sampling(t, k, p))
    np.testing.assert_allclose(got[0], by_hand(row, t, k, None if p == 1.0 else p), atol=1e-12)


def test_top_p_keeps_the_smallest_set_that_reaches_it() -> None:
    logits = np.log(np.array([[0.25, 0.5, 0.125, 0.125]]))
    assert probabilities(logits, Sampling(1.0, top_p=0.5)).tolist() == [[0, 1, 0, 0]]
    np.testing.assert_allclose(probabilities(logits, Sampling(1.0, top_p=0.51)), [[1 / 3, 2 / 3, 0, 0]])
    np.testing.assert_allclose(probabilities(logits, Sampling(1.0, top_p=0.8)), [[2 / 7, 4 / 7, 1 / 7, 0]])


def test_temperature_comes_before_top_p() -> None:
    logits = np.log(np.array([[0.7, 0.3]]))
    assert probabilities(logits, Sampling(1.0, top_p=0.6)).tolist() == [[1, 0]]
    assert probabilities(logits, Sampling(100.0, top_p=0.6))[0, 1] > 0  # nearly even: one token no longer reaches 0.6


def test_rows_do_not_see_each_other() -> None:
    rows = np.random.default_rng(0).normal(size=(5, 40))
    sampling = Sampling(0.8, 7, 0.9)
    together = probabilities(rows, sampling)
    apart = [probabilities(row[None], sampling)[0] for row in rows]
    np.testing.assert_allclose(together, apart, rtol=1e-12)


@given(LOGITS, TEMPERATURE)
def test_one_candidate_is_greedy(row: list[float], t: float) -> None:
    greedy = draw(row, Sampling(), 1)
    assert greedy == [row.index(max(row))]
    assert draw(row, Sampling(t, top_k=1, seed=1), 1) == greedy
    assert draw(row, Sampling(t, top_p=1e-9, seed=1), 1) == greedy
    assert draw(row, Sampling(1e-300, seed=1), 1)[0] in [i for i, x in enumerate(row) if x == max(row)]


def test_a_seed_gives_the_same_tokens() -> None:
    row = [0.0] * 50
    assert draw(row, Sampling(1.0, seed=7), 20) == draw(row, Sampling(1.0, seed=7), 20)
    assert draw(row, Sampling(1.0, seed=7), 20) != draw(row, Sampling(1.0, seed=8), 20)
    assert draw(row, Sampling(1.0), 20) != draw(row, Sampling(1.0), 20)


def test_a_row_draws_the_same_alone_and_among_others() -> None:
    logits, sampling = np.zeros((4, 50), np.float32), Sampling(1.0, seed=7)
    four, one = sample(logits, sampling, sampling.streams(4)), sample(logits[:1], sampling, sampling.streams(1))
    assert four[0] == one[0]
    assert len(set(four.tolist())) > 1


def test_draws_are_distributed_as_the_probabilities_say() -> None:
    row, n = [2.0, 1.0, 0.0, -1.0, 0.0], 4000
    sampling = Sampling(1.5, top_k=3, seed=11)
    expected = probabilities(np.array([row]), sampling)[0] * n
    observed = np.bincount(draw(row, sampling, n), minlength=5)
    assert observed[3:].tolist() == [0, 0]  # of the two zeros the lower id stays
    chi_square = ((observed[:3] - expected[:3]) ** 2 / expected[:3]).sum()
    assert chi_square < 13.82  # 2 degrees of freedom, 0.1 %


def test_the_logits_are_left_alone() -> None:
    logits = np.arange(6, dtype=np.float32)[None]
    sample(logits, Sampling(0.5, 3, 0.9, 0), Sampling(seed=0).streams(1))
    assert logits.tolist() == [[0, 1, 2, 3, 4, 5]]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_overflowed_logits_are_an_error(bad: float, temperature: float) -> None:
    sampling = Sampling(temperature)
    with pytest.raises(ArchspecError, match="not finite in row 1"):
        sample(np.array([[0.0, 1.0], [0.0, bad]]), sampling, sampling.streams(2))


def test_masked_logits_are_never_drawn() -> None:
    assert set(draw([-np.inf, 0.0, -np.inf, 0.0], Sampling(1.0, seed=0), 50)) == {1, 3}


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": np.nan}, "temperature"),
        ({"temperature": np.inf}, "temperature"),
        ({"top_k": 0}, "top_k"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.5}, "top_p"),
        ({"top_p": np.nan}, "top_p"),
        ({"seed": -1}, "seed"),
    ],
)
def test_values_out_of_range(bad: dict[str, float], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Sampling(**bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(1.0, seed=0), Sampling(5.0, top_k=2, seed=0)])
def test_tokens_that_are_never_taken(sampling: Sampling) -> None:
    """And the logits, which are the runtime's own memory, stay as they are."""
    logits = np.array([[9.0, 8.0, 1.0, 0.5]] * 30, np.float32)
    before = logits.copy()
    drawn = set(sample(logits, sampling, sampling.streams(30), (0, 1)).tolist())
    assert drawn == ({2} if sampling.temperature == 0 else {2, 3})
    np.testing.assert_array_equal(logits, before)
