"""The comparison of an export with PyTorch in float32, which answers here or in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from archspec.compiler.precision import FP32, Precision
from archspec.errors import VerificationError, WeightsError
from archspec.exporters.room import demand_verification
from archspec.ops.model import Model

from .questions import Answer, questions
from .sidecar import Progress
from .weights import Weights, damaged
from .words import Part

if TYPE_CHECKING:
    from archspec.exporters.torch.module import Transformer

    from .apart import Apart
    from .twin import Exact
    from .verify import Verification


class Comparison:
    """Made before an export is written, so that PyTorch can answer meanwhile.

    module: the built model with these weights; made here if it is not given, or not in float32 on the CPU.
    apart: a process that PyTorch answers in, where this one does not ask it: for float32, without `module`.
    context: the longest text that the graphs were made for.
    budget: the mean divergence from float32 that a narrower precision may have; None: `measures.BUDGETS`.
    """

    def __init__(
        self,
        model: Model,
        weights: Weights,
        precision: Precision,
        *,
        module: Transformer | None,
        apart: Apart | None,
        context: int | None,
        budget: float | None,
    ) -> None:
        self.model, self.weights, self.precision = model, weights, precision
        self.context, self.budget = context, budget
        self.asked = questions(model, context)
        self.apart = apart
        if apart:
            apart.ask(model, weights, self.asked)
        held = next(module.parameters()) if module else None
        as_it_is = held is not None and str(held.dtype) == "torch.float32" and held.device.type == "cpu"
        self.module = module if as_it_is else None

    def demand_room(self, weight_bytes: int) -> None:
        """Raises UsageError where there is no memory for it. weight_bytes: of the export."""
        demand_verification(self.model, weight_bytes, built=self.module is not None, narrow=self.precision != FP32)

    def of(self, folder: Path, exact: Mapping[Part, Exact], progress: Progress) -> Verification:
        """Compare the written folder. exact: of each graph, the constants that it holds rounded.

        Raises VerificationError, BudgetError, and WeightsError where the weights are what is wrong.
        """
        progress("verification", 0.0)
        try:
            if self.precision == FP32:
                from .verify import verify

                checked = verify(folder, self.model, self.asked, self._answers)
            else:
                from .trial import verify_precision

                checked = verify_precision(self, folder, exact, progress)
        except (VerificationError, WeightsError):
            self._demand_numbers()
            raise
        progress("verification", 1.0)
        return checked

    def _answers(self) -> Sequence[tuple[Answer, Answer]]:
        if self.apart:
            return self.apart.answers()
        from .answers import answers, loaded

        return answers(self.module or loaded(self.model, self.weights), self.asked)

    def _demand_numbers(self) -> None:
        """Raises WeightsError for a weight that is infinite or no number: after a failure, since all of them are read."""
        for tensor in self.model.tensors():
            if not np.isfinite(self.weights(tensor.path)).all():
                raise damaged(tensor.path)
