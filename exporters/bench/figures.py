"""A number that was measured several times."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from typing import Any


class Figure:
    """A number of each round. It is read as their median; its spread goes from the first quartile to the third."""

    def __init__(self, rounds: Iterable[float]) -> None:
        self.rounds = tuple(rounds)

    def __iter__(self) -> Iterator[float]:
        return iter(self.rounds)

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def quartiles(self) -> tuple[float, float]:
        if len(self.rounds) == 1:
            return self.rounds[0], self.rounds[0]
        first, _, third = statistics.quantiles(self.rounds, n=4, method="inclusive")
        return first, third

    @property
    def spread(self) -> float:
        """Half of the distance between the quartiles, as a share of the median: what stands behind a ±."""
        first, third = self.quartiles
        return (third - first) / 2 / self.median

    def over(self, other: Iterable[float]) -> Figure:
        """Round by round: what else the machine did in a round meets both."""
        return Figure(a / b for a, b in zip(self, other, strict=True))

    def record(self) -> dict[str, Any]:
        """As plain data."""
        return {"median": self.median, "quartiles": list(self.quartiles), "rounds": list(self.rounds)}
