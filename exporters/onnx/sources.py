"""Where an export's weights come from: a built module, a checkpoint, or the spec's own initialisation. None is built for it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from archspec.compiler.precision import Precision
from archspec.exporters.fresh import Fresh
from archspec.exporters.rows import matrix_rows
from archspec.language.model import Spec
from archspec.ops.model import Model

from .beside import Beside
from .graph import DTYPES
from .weights import Array, Weights

if TYPE_CHECKING:
    from archspec.exporters.torch.module import Transformer


def sources(
    model: Model,
    spec: Spec,
    checkpoint: str | Path | None,
    module: Transformer | None,
    precision: Precision,
    *,
    compared: bool,
    seed: int = 0,
) -> tuple[Weights, Beside]:
    """The weights of `module`, or those in a file, or fresh ones: the same that `build` gives. And what comes with a checkpoint.

    seed: of fresh weights. compared: the weights are what a precision is measured against, so they come as they were.
    Raises `WeightsError` where a file is not this model's.
    """
    if checkpoint is None:
        return of_module(module) if module else _fresh(model, spec, precision, compared, seed), Beside()
    from archspec.exporters.weights.fit import fitted
    from archspec.exporters.weights.source import open_weights
    from archspec.exporters.weights.stream import Fitted
    from archspec.exporters.weights.tokenizer import bring_tokenizer

    source = open_weights(checkpoint)
    weights: Weights = of_module(module) if module else Fitted(source, fitted(model, source, spec.context_length))
    return weights, Beside(partial(bring_tokenizer, source), source.metadata)


def of_module(module: Transformer) -> Weights:
    """The weights of a built module, in float32."""

    def read(path: str, start: int = 0, stop: int | None = None) -> Array:
        array: Array = matrix_rows(module.tensor(path).detach(), start, stop).float().cpu().numpy()
        return array

    return read


def _fresh(model: Model, spec: Spec, precision: Precision, compared: bool, seed: int) -> Weights:
    """Drawn as they will lie in the file, where that is a type of its own and nobody compares: in less than half of the time."""
    as_stored = np.float32 if precision.blocks or compared else DTYPES[precision.compute].numpy()
    return Fresh(model, spec.init, seed, as_stored)
