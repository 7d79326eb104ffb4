"""Where tokens stand: columns, positions and padding of one stream in one call.

A column is a place in the batch's rectangle, a position what a token knows of its place. Two ways of counting: `unpadded`
counts the tokens before it, `every` the columns since its row's first token. They differ only where padding stands between
tokens. Masks are measured in `every`: a window then spans a fixed number of columns, so that a cache may drop the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from archspec.errors import UsageError
from archspec.ops.words import Counting


def tokens(mask: Tensor | None, shape: Sequence[int]) -> Tensor | None:
    """A mask of 0/1 in any dtype -> bool; None where it masks nothing and finding that out does not stop a device."""
    if mask is None:
        return None
    if mask.shape != tuple(shape):
        raise UsageError(
            f"the mask has shape {tuple(mask.shape)} where {tuple(shape)} is meant",
            "a row per sequence and a column per token, past tokens included",
        )
    mask = mask if mask.dtype == torch.bool else mask != 0
    free = mask.device.type == "cpu" and not torch.compiler.is_compiling()
    return None if free and bool(mask.all()) else mask


class Places:
    """T new columns after P past ones, of which `mask` (B, columns; bool) says which hold a token; None: all of them.

    `past` is a number, or a 0-dimensional tensor where the shapes of a call must not depend on it; then the mask covers
    more columns than there are yet.
    """

    def __init__(self, length: int, device: torch.device, past: int | Tensor = 0, mask: Tensor | None = None) -> None:
        self.length, self.past, self.mask = length, past, mask
        self.columns = torch.arange(length, device=device) + past  # T
        self._before: Tensor | None = None
        self._memo: dict[Counting, Tensor] = {}

    @property
    def before(self) -> Tensor:
        """B 1: padding columns before each row's first token."""
        assert self.mask is not None
        if self._before is None:
            self._before = (self.mask.cumsum(1) == 0).sum(1, keepdim=True)
        return self._before

    def new(self, x: Tensor) -> Tensor:
        """B columns -> B T: those of the new tokens."""
        return x[:, -self.length :] if isinstance(self.past, int) else x.index_select(1, self.columns)

    def positions(self, count: Counting) -> Tensor:
        """B T, or 1 T where all rows are alike. Leading padding stands at 0: nobody sees it."""
        if count not in self._memo:
            if self.mask is None:
                at = self.columns.unsqueeze(0)
            elif count == "every":
                at = (self.columns - self.before).clamp(min=0)
            else:
                at = self.new(self.mask.cumsum(1) - 1).clamp(min=0)
            self._memo[count] = at
        return self._memo[count]

    def queries(self) -> Tensor:
        """B T or 1 T: where the new tokens stand for a mask; negative before a row's first token."""
        return self.columns.unsqueeze(0) if self.mask is None else self.columns - self.before

    def keys(self, columns: Tensor) -> Tensor:
        """S columns, -1 where there is none -> B S or 1 S: where they stand for a mask, -1 for padding."""
        if self.mask is None:
            return columns.unsqueeze(0)
        there = self.mask.index_select(1, columns.clamp(min=0)) & (columns >= 0)
        return torch.where(there, columns - self.before, -1)

    def tokens(self) -> Tensor | None:
        """B T: which of the new columns hold a token; None: all of them."""
        return None if self.mask is None else self.new(self.mask)
