"""The weights of several graphs in one file beside them, each tensor once, written one after the other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir

from .ahead import pieces
from .weights import Streamed

SIDECAR = "model.onnx.data"
#: A large tensor starts on a page, so that it can be mapped; a small one on a vector register's width.
PAGE, LINE, LARGE = 4096, 64, 1 << 20

Progress = Callable[[str, float], None]
"""(what is being done, the share of it that is done)"""


def weights_of(models: Sequence[ir.Model]) -> dict[str, list[ir.Value]]:
    """Name -> the initializers, one a graph, that stand for a stored tensor; constants stay in their graphs."""
    named: dict[str, list[ir.Value]] = {}
    for model in models:
        for name, value in model.graph.initializers.items():
            if isinstance(value.const_value, Streamed):
                named.setdefault(name, []).append(value)
    return named


def layout(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where tensors of these sizes start, and where the file ends."""
    at, starts = 0, []
    for size in sizes:
        step = PAGE if size >= LARGE else LINE
        starts.append(-(-at // step) * step)
        at = starts[-1] + size
    return starts, at


def write_weights(models: Sequence[ir.Model], folder: Path, progress: Progress) -> tuple[int, str]:
    """Write the weights of all graphs to one file, and leave references to it in them.

    Returns the bytes written and their SHA-256. No weight is read before its turn comes, or kept after it.
    """
    named = weights_of(models)
    tensors = [stored(values[0]) for values in named.values()]
    starts, total = layout([tensor.nbytes for tensor in tensors])
    digest, at = hashlib.sha256(), 0
    with (folder / SIDECAR).open("wb") as file:
        for i, piece in pieces(tensors):
            gap = bytes(max(0, starts[i] - at))
            data = piece.reshape(-1).view(np.uint8).data
            for part in (gap, data):
                file.write(part)
                digest.update(part)
                at += len(part)
            progress("weights", at / total)
    for start, values in zip(starts, named.values(), strict=True):
        refer(values, start, folder)
    return total, digest.hexdigest()


def stored(value: ir.Value) -> Streamed:
    """What an initializer holds before it is written."""
    assert isinstance(value.const_value, Streamed)
    return value.const_value


def refer(values: Sequence[ir.Value], start: int, folder: Path) -> None:
    """Make initializers references to their place in the file."""
    for value in values:
        tensor = stored(value)
        value.const_value = ir.ExternalTensor(
            SIDECAR, start, tensor.nbytes, tensor.dtype, shape=tensor.shape, name=str(tensor.name), base_dir=folder
        )
