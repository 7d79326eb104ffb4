"""Layers as a paper would draw them: equal layers once with their number, repeating patterns as a frame in a frame.

Found by comparing operations, so a spec that lists 24 layers one by one gives the same picture as one that says 24.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from archspec.ops.base import Op


@dataclass(frozen=True)
class Layer:
    """One drawn layer; `first` is the index where it first stands. `borrowed`: it uses the weights of that earlier layer."""

    op: Op
    first: int = field(compare=False)
    borrowed: int | None = None

    @property
    def length(self) -> int:
        """Layers that it stands for."""
        return 1

    def moved(self, by: int) -> Layer:
        """The same so many layers later."""
        return replace(self, first=self.first + by)


@dataclass(frozen=True)
class Repeat:
    """`body`, `times` times; `shared`: with one set of weights."""

    times: int
    shared: bool
    body: tuple[Part, ...]

    @property
    def first(self) -> int:
        """Index of the first layer that it stands for."""
        return self.body[0].first

    @property
    def length(self) -> int:
        """Layers that it stands for."""
        return self.times * sum(part.length for part in self.body)

    def moved(self, by: int) -> Repeat:
        """The same so many layers later."""
        return replace(self, body=tuple(part.moved(by) for part in self.body))


Part = Layer | Repeat
Cost = tuple[int, int]
"""Drawn blocks, then frames."""
Row = tuple[Cost, tuple[Part, ...]]


def grouped(layers: Sequence[Op], owners: Sequence[int] = ()) -> tuple[Part, ...]:
    """The layers in order, drawn with as few blocks as repeats allow. `owners[i]`: the layer whose weights layer i uses."""
    return _grouped(layers, owners or range(len(layers)), 0, len(layers))


def _grouped(layers: Sequence[Op], owners: Sequence[int], start: int, end: int) -> tuple[Part, ...]:
    parts: list[Part] = []
    at = start
    while at < end:
        period, times = _sharing(owners, at, end)
        if times > 1:
            parts.append(Repeat(times, True, _grouped(layers, owners, at, at + period)))
        else:
            owner = owners[at]
            parts.append(Layer(layers[at], at, None if owner == at else owner))
        at += period * times
    return _folded(tuple(parts))


def _sharing(owners: Sequence[int], at: int, end: int) -> tuple[int, int]:
    """(period, times) of the longest row from `at` that is run again with the same weights; (1, 1): there is none."""
    best = (1, 1)
    for period in (j - at for j in range(at + 1, end) if owners[j] == owners[at] == at):
        row, times = owners[at : at + period], 1
        while owners[at + times * period : min(at + (times + 1) * period, end)] == row:
            times += 1
        if times > 1 and period * times > best[0] * best[1]:
            best = (period, times)
    return best


def _folded(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The same layers with the fewest drawn blocks, then the fewest frames, repeating rows put into repeats."""
    names: dict[Part, int] = {}
    return _cheapest(parts, tuple(names.setdefault(part, len(names)) for part in parts), {})[1]


def _cheapest(parts: tuple[Part, ...], ids: tuple[int, ...], known: dict[tuple[int, ...], Row]) -> Row:
    """(cost, the drawing): the shortest path from the first part to the last, over single parts and repeats."""
    if ids in known:
        cost, row = known[ids]
        return cost, tuple(part.moved(parts[0].first - row[0].first) for part in row)
    n = len(ids)
    best: list[tuple[Cost, int, Part | None]] = [((0, 0), 0, None), *([((n + 1, 0), 0, None)] * n)]
    for i in range(n):
        blocks, frames = best[i][0]
        if (blocks + 1, frames) < best[i + 1][0]:
            best[i + 1] = ((blocks + 1, frames), i, parts[i])
        for length, period in _periods(ids[i:]):
            if best[i + length][0] <= (blocks + 1, frames + 1):  # no row can be cheaper than one block in one frame
                continue
            cost, row = _cheapest(parts[i : i + period], ids[i : i + period], known)
            total = (blocks + cost[0], frames + cost[1] + 1)
            if total < best[i + length][0]:
                best[i + length] = (total, i, Repeat(length // period, False, row))
    drawn: list[Part] = []
    at = n
    while at:
        _, at, part = best[at]
        assert part is not None
        drawn.append(part)
    known[ids] = best[n][0], tuple(reversed(drawn))
    return known[ids]


def _periods(ids: tuple[int, ...]) -> list[tuple[int, int]]:
    """(length, period) of every start of `ids` that is a whole number of repeats    (prefix function of Knuth, Morris, Pratt)."""
    border = [0] * len(ids)
    found = []
    for j in range(1, len(ids)):
        k = border[j - 1]
        while k and ids[j] != ids[k]:
            k = border[k - 1]
        border[j] = k + (ids[j] == ids[k])
        period = j + 1 - border[j]
        if border[j] and (j + 1) % period == 0:
            found.append((j + 1, period))
    return found
