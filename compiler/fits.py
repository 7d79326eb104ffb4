"""Will it fit? What a count takes beside so many bytes of memory, and the most that they hold."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from archspec.errors import UsageError
from archspec.ops.record import Record

if TYPE_CHECKING:
    from .count import Counts

UNITS = {
    "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
#: Where so many still fit, nothing that is counted grows with them.
ENDLESS = 1 << 60


class Fit(Record):
    """What is left of so many bytes; true where the weights and the cache of what is counted fit into them.

    Of inference nothing else is in it: not what is computed on the way (activations), and not what a runtime takes for itself.
    """

    bytes: int
    counts: Counts

    def __bool__(self) -> bool:
        return self._holds(self.counts)

    @property
    def left(self) -> dict[str, int | None]:
        """Bytes that are left beside what is in memory; below 0: that are lacking. None: there is nothing such."""
        taken = self.counts.memory
        return {
            key: None if (n := taken[key]) is None else self.bytes - n for key in ("weights", "inference", *TRAINING)
        }

    @property
    def tokens(self) -> int | None:
        """The most tokens, past and new, that each sequence of the batch may have, at most the model's own. None: without end."""
        return _most(lambda t: self._holds(self.counts.at(length=t, past=0)), self.counts.context)

    @property
    def batch(self) -> int | None:
        """The most sequences of the lengths that are counted. None: without end."""
        return _most(lambda b: self._holds(self.counts.at(batch=b)), None)

    def _holds(self, counts: Counts) -> bool:
        return counts.weight_bytes + counts.cache_bytes <= self.bytes

    def record(self) -> dict[str, Any]:
        """As plain data. Keys are stable; docs/counting.md documents them."""
        return {"bytes": self.bytes, "fits": bool(self), "left": self.left, "tokens": self.tokens, "batch": self.batch}


#: What is in memory while training, as `Counts.memory` has it.
TRAINING = ("training", "training_checkpointed")


def bytes_of(size: str) -> int:
    """24GiB, 80 GB, 1.5TiB, or bytes without a unit. Raises UsageError for what is no size."""
    found = re.fullmatch(r"\s*(\d+)(?:\.(\d+))?\s*([A-Za-z]*)\s*", size, re.ASCII)
    units = {"": 1} | {name.lower(): n for name, n in UNITS.items()}
    if found and found[3].lower() in units:
        unit, part = units[found[3].lower()], found[2] or "0"
        parts: int = 10 ** len(part)
        return int(found[1]) * unit + int(part) * unit // parts
    number, letter = (found[1], found[3][:1].upper()) if found else ("24", "G")
    letter = letter if letter in "KMGT" else "G"
    raise UsageError(
        f"{size!r} is no size.",
        f"say {number}{letter}iB, in units of 1,024, or {number}{'k' if letter == 'K' else letter}B, in units of 1,000",
    )


def _most(holds: Callable[[int], bool], end: int | None) -> int | None:
    """The largest number that holds, at most `end`, found by halving: where one holds, every smaller one does."""
    if not holds(1):
        return 0
    if holds(end or ENDLESS):
        return end
    low, high = 1, end or ENDLESS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
