"""The weights of several graphs in one file beside them, each tensor once, written one after the other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir

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
            if isinstance(value.const_value, ir.LazyTensor):
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

    Returns the bytes written and their SHA-256.

    A tensor is read when its turn comes and dropped after it: one is in memory at a time.
    """
    named = weights_of(models)
    starts, total = layout([values[0].const_value.nbytes for values in named.values()])  # type: ignore[union-attr]
    digest = hashlib.sha256()
    with (folder / SIDECAR).open("wb") as file:
        for start, (name, values) in zip(starts, named.items(), strict=True):
            tensor = values[0].const_value
            assert tensor is not None
            array = tensor.numpy()
            for piece in (bytes(start - file.tell()), array.reshape(-1).view(np.uint8).data):
                file.write(piece)
                digest.update(piece)
            for value in values:
                value.const_value = ir.ExternalTensor(
                    SIDECAR, start, tensor.nbytes, tensor.dtype, shape=ir.Shape(array.shape), name=name, base_dir=folder
                )
            progress("weights", (start + tensor.nbytes) / total)
    return total, digest.hexdigest()
