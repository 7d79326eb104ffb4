"""From logits to the next token: greedy, temperature, top-k, top-p.

B rows of V logits in, B token ids out. Everything is exact and by rule, ties included, so that a seed gives the same tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archspec.errors import ArchspecError, UsageError

Logits = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is chosen. In this order:

    temperature: logits / temperature. 0 is greedy: the highest logit, of equal ones the lowest id; the rest is then idle.
    top_k: only the k highest logits stay, of equal ones those with the lowest ids: exactly k.
    top_p: of what stayed, by falling probability (equal ones by id), the shortest run whose probabilities sum to at least p.
        At least one token always stays (nucleus sampling, arXiv 1904.09751).
    seed: None draws from the machine's entropy. Each row draws from its own stream, so a row's tokens do not depend on how
        many rows there are.

    Raises UsageError for a value out of range.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        if not (isfinite(self.temperature) and self.temperature >= 0):
            raise UsageError(f"a temperature of {self.temperature} has no meaning", "0 is greedy, 1 samples as trained")
        if self.top_k is not None and self.top_k < 1:
            raise UsageError(f"top_k of {self.top_k} leaves no token", "top_k must be at least 1")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UsageError(f"top_p of {self.top_p} is no share of the probability", "0 < top_p <= 1")
        if self.seed is not None and self.seed < 0:
            raise UsageError(f"a seed of {self.seed} is negative", "seeds are whole numbers from 0")

    def streams(self, rows: int) -> list[np.random.Generator]:
        """One random stream a row."""
        return [np.random.default_rng(s) for s in np.random.SeedSequence(self.seed).spawn(rows)]


def probabilities(logits: Logits, sampling: Sampling) -> NDArray[np.float64]:
    """B V -> B V: what each token's chance is, 0 for those that top-k or top-p took out. Greedy gives a single 1.

    This is the one copy of the logits, in float64.
    """
    if sampling.temperature == 0:
        picked = np.zeros(logits.shape, np.float64)
        picked[np.arange(len(logits)), logits.argmax(axis=-1)] = 1.0
        return picked
    x = logits.astype(np.float64)
    x -= x.max(axis=-1, keepdims=True)  # before the division: the highest is 0 at any temperature
    with np.errstate(over="ignore"):  # a tiny temperature: all but the highest are -inf, as they should be
        x /= sampling.temperature
    if sampling.top_k is not None and sampling.top_k < x.shape[-1]:
        x[~_highest(x, sampling.top_k)] = -inf
    np.exp(x, out=x)
    x /= x.sum(axis=-1, keepdims=True)
    if sampling.top_p is not None and sampling.top_p < 1:
        x = _nucleus(x, sampling.top_p)
        x /= x.sum(axis=-1, keepdims=True)
    return x


def softmax(x: Logits) -> NDArray[np.float64]:
    """... V -> ... V: exp x / sum exp x, in float64."""
    e = np.exp(x.astype(np.float64) - x.max(axis=-1, keepdims=True))
    shares: NDArray[np.float64] = e / e.sum(axis=-1, keepdims=True)
    return shares


def _highest(x: NDArray[np.float64], k: int) -> NDArray[np.bool_]:
    """B V -> B V: the k highest of each row, of equal ones the first."""
    kth = np.partition(x, -k, axis=-1)[:, -k, None]
    above, equal = x > kth, x == kth
    room = k - above.sum(axis=-1, keepdims=True)
    kept: NDArray[np.bool_] = above | (equal & (equal.cumsum(axis=-1) <= room))
    return kept


def _nucleus(p: NDArray[np.float64], mass: float) -> NDArray[np.float64]:
    """B V -> B V: probabilities outside the shortest run that reaches `mass` set to 0."""
    # Those below (1 - mass) / V sum to less than 1 - mass, so the run never reaches them: only the others are sorted.
    likely = np.flatnonzero((p >= (1 - mass) / p.shape[-1]).any(axis=0))
    few = p[:, likely]
    order = np.argsort(-few, axis=-1, kind="stable")
    ranked = np.take_along_axis(few, order, axis=-1)
    reached = ranked.cumsum(axis=-1)
    ranked[:, 1:][reached[:, :-1] >= mass] = 0.0
    np.put_along_axis(few, order, ranked, axis=-1)
    kept = np.zeros_like(p)
    kept[:, likely] = few
    return kept


def sample(
    logits: Logits, sampling: Sampling, streams: list[np.random.Generator], never: Sequence[int] = ()
) -> NDArray[np.int64]:
    """B V -> B: the next token of each row, from its own stream, and none of `never`.

    Raises ArchspecError where logits have overflowed.
    """
    if never:
        logits = logits.copy()
        logits[:, list(never)] = -inf
    best: NDArray[np.int64] = logits.argmax(axis=-1).astype(np.int64)  # NaN counts as highest
    top = logits[np.arange(len(logits)), best]
    if not np.isfinite(top).all():
        rows = ", ".join(map(str, np.flatnonzero(~np.isfinite(top))))
        raise ArchspecError(f"the model's logits are not finite in row {rows}: its numbers have overflowed")
    if sampling.temperature == 0:
        return best
    cumulative = probabilities(logits, sampling).cumsum(axis=-1)
    drawn = np.array([stream.random() for stream in streams]) * cumulative[:, -1]
    # The first token whose cumulative probability exceeds the draw; it never has probability 0.
    tokens: NDArray[np.int64] = (cumulative <= drawn[:, None]).sum(axis=-1, dtype=np.int64)
    return tokens
