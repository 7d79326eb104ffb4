"""What a precision costs: the numbers of an exported graph beside PyTorch's in float32, on random tokens and on text.

Where a head gives a distribution, the divergence is that of Kullback and Leibler, Σ p (ln p - ln q) in nats, p by float32; where it
gives a vector, it is 1 - cosine. Both are about half of the squared error there is in proportion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

import numpy as np

from archspec.compiler.precision import Name, Precision
from archspec.errors import BudgetError
from archspec.exporters.units import share
from archspec.ops.head import ClassifierHead, LmHead
from archspec.ops.model import Model

from .weights import Array

#: The divergence that a precision may have on average, unless something else is said. Small models lose most: SmolLM2, of 135
#: million parameters, has 0.4 in int4.
BUDGETS: Mapping[Name, float] = {"fp32": 1e-6, "fp16": 0.005, "bf16": 0.05, "int8": 0.05, "int4": 0.6}
#: Rows of logits that are turned into distributions at a time.
ROWS = 64


@dataclass(frozen=True)
class Measures:
    """How far a graph is from PyTorch in float32.

    on: what it was given. positions: outputs that were compared. difference: the largest one of any number; spread: the standard
    deviation of float32's. divergence, worst: mean and maximum over positions. agreement: the share of positions with the same
    likeliest token or label (None for vectors). clear: positions where float32's lead of the likeliest over the next is larger than
    the root mean square of the differences there, clear_agreement: the share among those. allowed: the mean divergence that fails
    the export; None where another text decides.
    """

    on: str
    positions: int
    difference: float
    spread: float
    divergence: float
    worst: float
    agreement: float | None
    clear: int
    clear_agreement: float | None
    allowed: float | None = None

    @property
    def distance(self) -> str:
        """KL divergence, mean 0.34 nats (allowed 0.6), worst position 2.4"""
        name, unit = ("1 - cosine", "") if self.agreement is None else ("KL divergence", " nats")
        held = "" if self.allowed is None else f" (allowed {self.allowed:g})"
        return f"{name}, mean {self.divergence:.2g}{unit}{held}, worst position {self.worst:.2g}"

    @property
    def choices(self) -> str:
        """How often both choose the same; nothing for vectors."""
        if self.agreement is None:
            return ""
        line = f"the same choice at {share(self.agreement)} of {self.positions:,} positions"
        if self.clear_agreement is None:
            return line
        return f"{line}, and at {share(self.clear_agreement)} of the {self.clear:,} where float32 is not in doubt"

    def __str__(self) -> str:
        return "; ".join(filter(None, (f"{self.on}: {self.distance}", self.choices)))


def measured(model: Model, on: str, want: Array, got: Array) -> Measures:
    """Compare outputs (N, C): logits, or vectors."""
    with np.errstate(invalid="ignore"):  # what is not a number fails later
        return _measured(model, on, want, got)


def _measured(model: Model, on: str, want: Array, got: Array) -> Measures:
    apart, std = np.abs(got - want), float(want.std())
    chosen = isinstance(model.head, LmHead | ClassifierHead)
    if chosen and want.shape[-1] == 1:  # a score alone, as of a reranker: yes, beside a no of 0
        want, got = (np.pad(x, ((0, 0), (0, 1))) for x in (want, got))
    each = _kullback_leibler(want, got) if chosen else _cosine_distance(want, got)
    agreement = clear_agreement = None
    clear = 0
    if chosen:
        same = want.argmax(-1) == got.argmax(-1)
        two = np.partition(want, -2, -1)[:, -2:]
        leads = two[:, 1] - two[:, 0] > np.sqrt((apart * apart).mean(-1))
        agreement, clear = float(same.mean()), int(leads.sum())
        clear_agreement = float(same[leads].mean()) if clear else None
    return Measures(
        on, len(want), float(apart.max()), std, float(each.mean()), float(each.max()), agreement, clear,
        clear_agreement,
    )  # fmt: skip


def demand(precision: Precision, measures: Measures, what: str = "the model is too far from float32") -> None:
    """Raises BudgetError where the divergence is more than is allowed."""
    allowed = measures.allowed
    if allowed is None or measures.divergence <= allowed:  # not a number is more
        return
    if not isfinite(measures.divergence):
        raise BudgetError(
            f"As {precision}, the model gives numbers that are infinite or none: somewhere {precision.compute} ends.",
            f"say {'--compute' if precision.blocks else '--precision'} {_wider(precision)}",
        )
    raise BudgetError(
        f"As {precision}, {what}: {measures.divergence:.2g} on average, where {allowed:g} is allowed.\n  {measures}",
        _remedy(precision),
    )


def _wider(precision: Precision) -> str:
    return "bf16, or fp32" if precision.compute == "fp16" else "fp32"


def _remedy(precision: Precision) -> str:
    blocks = precision.blocks
    if blocks is None:
        return f"say --precision {_wider(precision)}, or allow more with --budget"
    ways = ["--precision int8"] if blocks.bits == 4 else []
    ways += ["--asymmetric"] if blocks.symmetric else []
    ways += [f"a smaller --block than {blocks.size}"] if blocks.size > 16 else []
    return f"try {', '.join(ways)}, --keep PATTERN for what must not be coarse, or allow more with --budget"


def _kullback_leibler(want: Array, got: Array) -> Array:
    """(N, C) logits each -> N nats."""
    out = np.empty(len(want))
    for start in range(0, len(want), ROWS):
        p, q = (_log_softmax(x[start : start + ROWS].astype(np.float64)) for x in (want, got))
        out[start : start + ROWS] = np.maximum((np.exp(p) * (p - q)).sum(-1), 0.0)
    return out


def _log_softmax(x: Array) -> Array:
    below: Array = x - x.max(-1, keepdims=True)
    log: Array = below - np.log(np.exp(below).sum(-1, keepdims=True))
    return log


def _cosine_distance(want: Array, got: Array) -> Array:
    """(N, C) vectors each -> 1 - cosine."""
    want, got = want.astype(np.float64), got.astype(np.float64)
    lengths = np.linalg.norm(want, axis=-1) * np.linalg.norm(got, axis=-1)
    distance: Array = 1.0 - (want * got).sum(-1) / np.maximum(lengths, np.finfo(np.float64).tiny)
    return distance
