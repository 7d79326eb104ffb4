"""The weights of several graphs in one file beside them, each tensor once, written one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir

from .ahead import pieces
from .disk import pouring
from .weights import Streamed

SIDECAR = "model.onnx.data"
#: A large tensor starts on a page, so that it can be mapped; a small one on a vector register's width.
PAGE, LINE, LARGE = 4096, 64, 1 << 20

Progress = Callable[[str, float], None]
"""(what is being done, the share of it that is done)"""


def weights_of(models: Sequence[ir.Model]) -> dict[str, list[ir.Value]]:
    """Place -> the initializers of all graphs that stand for these bytes; constants stay in their graphs."""
    places: dict[str, list[ir.Value]] = {}
    for model in models:
        for value in model.graph.initializers.values():
            if isinstance(value.const_value, Streamed):
                places.setdefault(value.const_value.place, []).append(value)
    return places


def layout(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where tensors of these sizes start, and where the file ends."""
    at, starts = 0, []
    for size in sizes:
        step = PAGE if size >= LARGE else LINE
        starts.append(-(-at // step) * step)
        at = starts[-1] + size
    return starts, at


def write_weights(models: Sequence[ir.Model], folder: Path, progress: Progress) -> str:
    """Write the weights of all graphs to one file, and leave references to it in them.

    Returns the SHA-256 of the file. No weight is read before its turn comes, or kept after it.
    """
    tensors, starts, total = placed(models)
    with pouring(folder / SIDECAR, total) as file:
        for i, piece in pieces(tensors):
            file.write(np.zeros(max(0, starts[i] - file.size), np.uint8))
            file.write(piece)
            progress("weights", file.size / total)
    refer_weights(models, folder)
    return file.digest.hexdigest()


def bytes_of(models: Sequence[ir.Model]) -> int:
    """Bytes of the file that `write_weights` would write."""
    return placed(models)[2]


def placed(models: Sequence[ir.Model]) -> tuple[list[Streamed], list[int], int]:
    """The tensor that is read for each place, where each starts, and where the file ends."""
    tensors = []
    for place, values in weights_of(models).items():
        held = [_held(value) for value in values]
        tensors.append(next((tensor for tensor in held if tensor.name == place), held[0]))
    return tensors, *layout([tensor.nbytes for tensor in tensors])


def refer_weights(models: Sequence[ir.Model], folder: Path) -> None:
    """Make the weights of all graphs references to the file in `folder`, whether it is there or not."""
    _, starts, _ = placed(models)
    for start, values in zip(starts, weights_of(models).values(), strict=True):
        for value in values:
            tensor = _held(value)
            value.const_value = ir.ExternalTensor(
                SIDECAR, start, tensor.nbytes, tensor.dtype, shape=tensor.shape, name=str(tensor.name), base_dir=folder
            )


def _held(value: ir.Value) -> Streamed:
    """What an initializer is before it is written."""
    assert isinstance(value.const_value, Streamed)
    return value.const_value
