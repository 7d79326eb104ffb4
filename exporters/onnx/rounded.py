"""Weights as a graph holds them: rounded to half of a float, or to small integers and back."""

from __future__ import annotations

import numpy as np

from archspec.compiler.precision import Storage
from archspec.exporters.rows import matrix_rows
from archspec.ops.base import walk
from archspec.ops.model import Model
from archspec.ops.norms import LayerNorm, RMSNorm

from .graph import DTYPES, HALVES
from .quantise import dequantise_rows, quantise_rows
from .weights import Array, Weights


def rounded(model: Model, weights: Weights, storage: Storage) -> Weights:
    """The weights in float32 by which PyTorch computes what the graphs do, their activations' rounding aside."""
    dtype, blocks = DTYPES[storage.precision.compute], storage.precision.blocks
    norms = ((path, op) for path, op, _ in walk(model) if isinstance(op, LayerNorm | RMSNorm))
    shifts = {f"{path}weight": op.shift for path, op in norms}  # a graph holds 1 + w

    def read(path: str, start: int = 0, stop: int | None = None) -> Array:
        exact = np.asarray(weights(path), np.float32)
        if path in storage.quantised:
            assert blocks is not None
            rows = exact.reshape(-1, exact.shape[-1])
            near = dequantise_rows(quantise_rows(rows, blocks, dtype.numpy(), (path,)), blocks).reshape(exact.shape)
        elif dtype in HALVES and path not in storage.routers:
            shift = np.float32(shifts.get(path, 0.0))
            near = (exact + shift).astype(dtype.numpy()).astype(np.float32) - shift
        else:
            near = exact
        held: Array = matrix_rows(near, start, stop)
        return held

    return read
