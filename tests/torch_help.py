"""What the tests of the built model share."""

from __future__ import annotations

from typing import Any

import torch
from tiny import tiny
from torch import Tensor

from archspec.exporters.torch.module import Transformer, build
from archspec.ops.model import Model

SOURCE = 7


def perturbed(model: Model | str, dtype: str = "float64", seed: int = 1) -> Transformer:
    """Built, with every parameter moved off its initial value, so that no norm weight is 1 and no bias 0."""
    net = build(tiny(model) if isinstance(model, str) else model, dtype=dtype).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, p in net.stored():
            p += 0.2 * torch.randn(p.shape, generator=generator).to(p.dtype)
    return net


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Random float64."""
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def tokens(*shape: int, seed: int = 2, vocab: int = 61) -> Tensor:
    """Random ids."""
    return torch.randint(0, vocab, shape, generator=torch.Generator().manual_seed(seed))


def source(net: Transformer, batch: int = 2, length: int = SOURCE) -> dict[str, Any]:
    """The `source` argument where the model takes one."""
    return {"source": tokens(batch, length, seed=3)} if net.op.form == "encoder_decoder" else {}


def left_padded(ids: Tensor, pads: list[int]) -> tuple[Tensor, Tensor]:
    """Each row of ids shifted right by its number of pads, and the mask that says so. The last ids fall off."""
    moved, mask = torch.zeros_like(ids), torch.zeros_like(ids)
    for row, n in enumerate(pads):
        moved[row, n:], mask[row, n:] = ids[row, : ids.shape[1] - n], 1
    return moved, mask
