"""Caches: what a request keeps between calls.

Both kinds answer the same questions (`Cache`), address their slots by path and know each row's column, so that masks need
nothing else. A slot of `rows` n keeps the last n columns, which is all that a later query can see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from archspec.errors import UsageError
from archspec.ops.base import walk
from archspec.ops.bind import SlotRef
from archspec.ops.leaves import Slot
from archspec.ops.model import Model

from .places import Places, tokens


class Cache(Protocol):
    """What a run asks of a cache."""

    source_mask: Tensor | None

    @property
    def filled(self) -> bool:
        """Does it hold the keys and values of a source already?"""
        ...

    def begin(self, ids: Tensor, mask: Tensor | None) -> Places:
        """Opens a call with new ids (B T) and the mask of all columns so far (B P+T)."""
        ...

    def append(self, at: SlotRef, x: Tensor) -> Tensor:
        """B K T C, the new rows -> B K S C, those that this call's queries may see among them."""
        ...

    def columns(self, rows: int | None) -> Tensor:
        """S: the column of each row that `append` gives for a slot of so many rows; -1: nothing there yet."""
        ...

    def once(self, slots: Sequence[SlotRef], make: Callable[[], Sequence[Tensor]]) -> Sequence[Tensor]:
        """What `make` gave on the first call."""
        ...

    def end(self) -> None:
        """Closes the call: the new tokens are past ones now."""
        ...


class _Slots:
    """What both kinds say of the slots that they hold, by path."""

    slots: dict[str, Tensor]
    #: Those that hold a source.
    _kept: set[str]

    @property
    def filled(self) -> bool:
        """Does it hold the keys and values of a source already?"""
        return bool(self._kept)

    @property
    def nbytes(self) -> int:
        """Bytes held in slots."""
        return sum(x.numel() * x.element_size() for x in self.slots.values())


class GrowingCache(_Slots):
    """Concatenates: as large as what it holds. Gradients flow through it."""

    def __init__(self) -> None:
        self.slots = {}
        self.length = 0
        self.mask: Tensor | None = None
        self.source_mask: Tensor | None = None
        self._kept = set()
        self._places: Places | None = None

    def begin(self, ids: Tensor, mask: Tensor | None) -> Places:
        b, t = ids.shape
        if mask is None and self.mask is not None:  # padding is told once
            mask = torch.cat((self.mask, self.mask.new_ones(b, t)), 1)
        self._places = Places(t, ids.device, self.length, tokens(mask, (b, self.length + t)))
        return self._places

    def append(self, at: SlotRef, x: Tensor) -> Tensor:
        old, rows = self.slots.get(at.path), at.slot.rows
        if old is not None and rows is not None:  # the first new token sees rows - 1 before it
            old = old[:, :, max(old.shape[2] - rows + 1, 0) :]
        new = x if old is None else torch.cat((old, x), 2)
        # a slice would keep the whole storage alive
        self.slots[at.path] = new if rows is None or new.shape[2] <= rows else new[:, :, -rows:].clone()
        return new

    def columns(self, rows: int | None) -> Tensor:
        assert self._places is not None
        end = self.length + self._places.length
        start = 0 if rows is None else max(self.length - rows + 1, 0)
        return torch.arange(start, end, device=self._places.columns.device)

    def once(self, slots: Sequence[SlotRef], make: Callable[[], Sequence[Tensor]]) -> Sequence[Tensor]:
        if slots[0].path not in self._kept:
            self.slots |= {at.path: x for at, x in zip(slots, make(), strict=True)}
            self._kept |= {at.path for at in slots}
        return [self.slots[at.path] for at in slots]

    def end(self) -> None:
        assert self._places is not None
        self.length, self.mask = self.length + self._places.length, self._places.mask
        self._places = None


class StaticCache(_Slots):
    """Allocated once and written in place: no shape depends on how far a request is, so that decoding compiles once.

    Holds `capacity` columns of `batch` rows (and keys and values of `source` tokens); a slot that needs fewer rows is a
    ring. Inference only. After the first call a mask need not be given again: tokens that are added later are not padding.
    """

    def __init__(
        self,
        model: Model,
        batch: int,
        capacity: int,
        dtype: torch.dtype = torch.float32,
        device: str | torch.device = "cpu",
        source: int = 0,
    ) -> None:
        self.batch, self.capacity, self.source = batch, capacity, source
        self.slots = {}
        for path, op, _ in walk(model):
            for name, slot in op.state().items():
                rows = source if slot.stream == "source" else self._rows(slot)
                self.slots[path + name] = torch.zeros(batch, slot.heads, rows, slot.width, dtype=dtype, device=device)
        self.length = torch.zeros((), dtype=torch.int64, device=device)
        self.mask = torch.zeros(batch, capacity, dtype=torch.bool, device=device)
        self.source_mask: Tensor | None = None
        self.reset()

    def _rows(self, slot: Slot) -> int:
        return self.capacity if slot.rows is None else min(self.capacity, slot.rows)

    def reset(self) -> None:
        """Ready for another request, in the same memory."""
        self.length.zero_()
        self.mask.zero_()
        self.empty, self.padded, self.source_mask = True, False, None
        self._kept = set()
        self._places: Places | None = None

    def begin(self, ids: Tensor, mask: Tensor | None) -> Places:
        b, t = ids.shape
        if b != self.batch:
            raise UsageError(f"the cache was made for a batch of {self.batch}, not {b}")
        mask = self._checked(t, mask)
        past = 0 if self.empty else self.length
        places = Places(t, ids.device, past)
        if mask is not None:
            self.padded = True
            self.mask[:, : mask.shape[1]] = mask
        else:
            self.mask.index_fill_(1, places.columns, True)
        if self.padded:
            places.mask = self.mask[:, :t] if self.empty else self.mask
        self._places = places
        return places

    def _checked(self, t: int, mask: Tensor | None) -> Tensor | None:
        """The mask, and room for the tokens: checked where it costs no synchronisation; elsewhere the writes fail."""
        if torch.compiler.is_compiling() or self.length.device.type != "cpu":
            return mask
        past = int(self.length)
        if past + t > self.capacity:
            raise UsageError(f"the cache holds {self.capacity} tokens: {past} past and {t} new ones are too many")
        return tokens(mask, (self.batch, past + t))

    def _ring(self, rows: int, length: int | Tensor) -> Tensor:
        """The column in each row of a ring that `length` columns went through; negative: none yet."""
        last = length - 1
        row = torch.arange(rows, device=self.length.device)
        return last - (last - row) % rows

    def _joins(self, rows: int) -> bool:
        """Would new rows overwrite some that the first of them still sees? Then they are attended beside the old ones."""
        assert self._places is not None
        return not self.empty and rows < self.capacity and self._places.length > 1

    def append(self, at: SlotRef, x: Tensor) -> Tensor:
        assert self._places is not None
        if x.requires_grad:
            raise UsageError("a StaticCache is written in place: call the model under torch.no_grad()")
        buffer, columns = self.slots[at.path], self._places.columns
        rows = buffer.shape[2]
        seen = x if self.empty else torch.cat((buffer, x), 2) if self._joins(rows) else buffer
        if rows < self.capacity:
            x, columns = x[:, :, -rows:], columns[-rows:] % rows
        buffer.index_copy_(2, columns, x)
        return seen

    def columns(self, rows: int | None) -> Tensor:
        assert self._places is not None
        new = self._places.columns
        if self.empty:
            return new
        n = self.capacity if rows is None else min(self.capacity, rows)
        if self._joins(n):
            return torch.cat((self._ring(n, self.length), new)).clamp(min=-1)
        return self._ring(n, self.length + self._places.length).clamp(min=-1)

    def once(self, slots: Sequence[SlotRef], make: Callable[[], Sequence[Tensor]]) -> Sequence[Tensor]:
        if slots[0].path not in self._kept:
            for at, x in zip(slots, make(), strict=True):
                if x.shape[2] != self.source:
                    raise UsageError(f"the cache was made for a source of {self.source} tokens, not {x.shape[2]}")
                self.slots[at.path].copy_(x)
            self._kept |= {at.path for at in slots}
        return [self.slots[at.path] for at in slots]

    def end(self) -> None:
        assert self._places is not None
        self.length += self._places.length
        if self.empty:
            self.empty = False
        self._places = None
