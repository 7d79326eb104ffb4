"""Fresh weights into a module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from archspec.exporters.fresh import Fresh, Init
from archspec.language.model import NormalInit
from archspec.ops.model import Model

if TYPE_CHECKING:
    from .module import Transformer

#: Elements that are drawn at a time.
CHUNK = 1 << 22


@torch.no_grad()
def initialise(module: Transformer, model: Model, init: Init | None, seed: int | None) -> None:
    """Fills every stored tensor. A seed makes it repeatable and leaves the global generator alone; None draws one from that."""
    fresh = Fresh(model, init or NormalInit(), int(torch.randint(2**63 - 1, ())) if seed is None else seed)
    for stored in model.tensors():
        target, width = module.tensor(stored.path), stored.shape[-1]
        rows = target.view(-1, width)
        step = max(1, CHUNK // width)
        for start in range(0, len(rows), step):
            stop = min(start + step, len(rows))
            rows[start:stop].copy_(torch.from_numpy(fresh(stored.path, start, stop)))
