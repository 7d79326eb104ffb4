"""Weights into a built model: once they fit, one tensor at a time is copied."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from archspec.exporters.torch.arrays import tensor_of
from archspec.exporters.units import many
from archspec.ops.model import Model

from .fit import fitted
from .source import Checkpoint
from .transforms import read_back


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What was read. `unused` are weights of the file that the model has no part for; nothing else is left out unsaid."""

    family: str
    tensors: int
    #: `BF16 to float32` -> how many tensors
    conversions: dict[str, int]
    #: Weights of heads that the spec does not have.
    unused: tuple[str, ...]
    #: Masks and tables in the file that are computed, not learned.
    buffers: tuple[str, ...]
    #: Keys of the config that nothing has read (`archspec import` refuses them; here the spec is at hand and says what is built).
    unread: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The report as text."""
        out = [f"{self.tensors} tensors read by the {self.family} map"]
        out += [f"{many(count, 'tensor')} converted: {what}" for what, count in self.conversions.items()]
        if self.unused:
            out.append(f"not part of this model's head, unused: {', '.join(self.unused)}")
        if self.buffers:
            out.append(f"computed, not weights: {', '.join(self.buffers)}")
        if self.unread:
            out.append(f"of the config, held against nothing: {', '.join(self.unread)}")
        return out


def read_into(model: Model, source: Checkpoint, module: nn.Module, context_length: int | None = None) -> LoadReport:
    """Copy a checkpoint's weights into the module that was built from `model`. Raises as `fitted` does; it is untouched then."""
    fit = fitted(model, source, context_length)
    targets = module.state_dict()
    conversions: Counter[str] = Counter()
    with torch.no_grad():
        for entry in fit.entries:
            arrays = read_back(entry.chain, [source.read(n) for n in entry.theirs], entry.our_shapes, entry.op)
            stored = "/".join(sorted({source.dtypes[n] for n in entry.theirs}))
            for path, array in zip(entry.paths, arrays, strict=True):
                conversions[_copy(tensor_of(array), targets[path], stored)] += 1
    conversions.pop("", None)
    tensors_read = sum(len(e.ours) for e in fit.entries)
    return LoadReport(fit.family, tensors_read, dict(conversions), fit.unused, fit.buffers, fit.unread)


def _copy(tensor: Tensor, target: Tensor, stored: str) -> str:
    """Copy, and say what was converted (nothing: an empty string)."""
    target.copy_(tensor)
    converted = tensor.dtype != target.dtype or "Q" in stored
    return f"{stored} to {str(target.dtype).removeprefix('torch.')}" if converted else ""
