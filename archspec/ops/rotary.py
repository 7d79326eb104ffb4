"""Rotary positions and what stretches them: which angle a pair of channels turns by at each position.

Pair i turns by position · f_i, f_i = theta^(-2i/dim) radians (Su et al. 2021, arXiv 2104.09864). A scaling changes the f_i for
contexts longer than trained, and may multiply cos and sin by a magnitude. Two scalings depend on the run's own length n.
"""

from __future__ import annotations

from math import ceil, floor, log, pi, sqrt

from .record import Record


def plain(theta: float, dim: int) -> list[float]:
    """theta^(-2i/dim) for each of the dim/2 pairs, in float64."""
    return [theta ** (-2.0 * i / dim) for i in range(dim // 2)]


class Linear(Record):
    """Positions divided by a factor    (arXiv 2306.15595)."""

    factor: float

    def frequencies(self, theta: float, dim: int) -> list[float]:
        return [f / self.factor for f in plain(theta, dim)]


class Ntk(Record):
    """theta · alpha^(dim / (dim - 2)): low frequencies stretched, high ones kept."""

    alpha: float

    def frequencies(self, theta: float, dim: int) -> list[float]:
        return plain(theta * self.alpha ** (dim / (dim - 2)), dim)


class Proportional(Record):
    """The first share of the pairs turns as it would, the rest does not turn; all divided by a factor."""

    share: float
    factor: float = 1.0

    def frequencies(self, theta: float, dim: int) -> list[float]:
        turning = int(self.share * dim) // 2
        return [f / self.factor if i < turning else 0.0 for i, f in enumerate(plain(theta, dim))]


class Ramp(Record):
    """Long wavelengths divided by the factor, short ones kept, a smooth ramp between    (Llama 3.1)."""

    factor: float
    original_context: int
    low_frequency: float = 1.0
    high_frequency: float = 4.0

    def frequencies(self, theta: float, dim: int) -> list[float]:
        return [self.stretched(f) for f in plain(theta, dim)]

    def stretched(self, f: float) -> float:
        turns = self.original_context * f / (2 * pi)
        if turns < self.low_frequency:
            return f / self.factor
        if turns > self.high_frequency or self.high_frequency == self.low_frequency:
            return f
        kept = (turns - self.low_frequency) / (self.high_frequency - self.low_frequency)
        return (1 - kept) * f / self.factor + kept * f


class Yarn(Record):
    """NTK by parts    (Peng et al. 2023, arXiv 2309.00071): a linear ramp over the pairs between two numbers of turns."""

    factor: float
    original_context: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    #: cos and sin are multiplied by this.
    magnitude: float = 1.0

    def frequencies(self, theta: float, dim: int) -> list[float]:
        low, high = self.pair_of(self.beta_fast, theta, dim), self.pair_of(self.beta_slow, theta, dim)
        if self.truncate:
            low, high = float(floor(low)), float(ceil(high))
        low, high = max(low, 0.0), min(high, dim - 1.0)
        if low == high:
            high += 0.001
        divided = [min(max((i - low) / (high - low), 0.0), 1.0) for i in range(dim // 2)]
        return [f / self.factor * d + f * (1 - d) for f, d in zip(plain(theta, dim), divided, strict=True)]

    def pair_of(self, turns: float, theta: float, dim: int) -> float:
        """The (fractional) pair that turns so many times in the original context."""
        return dim * log(self.original_context / (turns * 2 * pi)) / (2 * log(theta))


class LongRope(Record):
    """A divisor per pair: `short` while a sequence fits the original context, `long` past it    (arXiv 2402.13753)."""

    original_context: int
    short: tuple[float, ...]
    long: tuple[float, ...]
    magnitude: float = 1.0

    def frequencies(self, theta: float, dim: int) -> list[float]:
        return [f / d for f, d in zip(plain(theta, dim), self.short, strict=True)]

    def longer(self, theta: float, dim: int) -> list[float]:
        """The frequencies of a sequence longer than the original context."""
        return [f / d for f, d in zip(plain(theta, dim), self.long, strict=True)]


class Dynamic(Record):
    """theta grows with the sequence once it passes the original context: f_i · growth(n)^exponent_i."""

    factor: float
    original_context: int

    def frequencies(self, theta: float, dim: int) -> list[float]:
        return plain(theta, dim)

    def exponents(self, dim: int) -> list[float]:
        """growth(n) = max(1, factor · n / original_context - (factor - 1)) enters pair i to this power."""
        return [-2.0 * i / (dim - 2) for i in range(dim // 2)]


Scaling = Linear | Ntk | Proportional | Ramp | Yarn | LongRope | Dynamic


def yarn_temperature(factor: float, mscale: float) -> float:
    """0.1 · mscale · ln(factor) + 1, and 1 where nothing is stretched (the paper's sqrt(1/t))."""
    return 0.1 * mscale * log(factor) + 1.0 if factor > 1 else 1.0


def longrope_temperature(factor: float, original_context: int) -> float:
    """sqrt(1 + ln(factor) / ln(original context)), and 1 where nothing is stretched."""
    return sqrt(1 + log(factor) / log(original_context)) if factor > 1 else 1.0


class Rope(Record):
    """The first `dim` channels of a head turn, in pairs (i, i + dim/2) or, interleaved, (2i, 2i + 1); the rest pass."""

    dim: int
    theta: float = 10000.0
    interleaved: bool = False
    scaling: Scaling | None = None

    def frequencies(self) -> list[float]:
        """Radians per position for each of the dim/2 pairs, in float64 (those of a short sequence, where its length matters)."""
        return self.scaling.frequencies(self.theta, self.dim) if self.scaling else plain(self.theta, self.dim)

    @property
    def magnitude(self) -> float:
        """What cos and sin are multiplied by."""
        return self.scaling.magnitude if isinstance(self.scaling, Yarn | LongRope) else 1.0
