"""Some rows of a tensor, read as a matrix: all axes but the last are one."""

from __future__ import annotations

from typing import Any, TypeVar

#: An array of numpy or a tensor of torch.
T = TypeVar("T", bound=Any)


def matrix_rows(x: T, start: int = 0, stop: int | None = None) -> T:
    """Rows [start, stop) of a tensor that is at hand, without a copy of the others; without `stop`, all of it in its shape."""
    if stop is None:
        return x
    if x.ndim == 3 and stop > start:
        each = x.shape[1]
        first = start // each
        if stop <= (first + 1) * each:  # inside one matrix of a stack, which need not lie in one piece
            inside: T = x[first][start - first * each : stop - first * each]
            return inside
    rows: T = x.reshape(-1, x.shape[-1])[start:stop]
    return rows
