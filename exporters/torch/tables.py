"""Frequencies of rotary and sinusoidal positions, on the device and in float64, whatever the model's dtype."""

from __future__ import annotations

import torch
from torch import Tensor

from archspec.ops.attention import Attention
from archspec.ops.base import walk
from archspec.ops.embedding import Embedding, SinusoidalPositions
from archspec.ops.model import Model
from archspec.ops.words import Rope, Sinusoid

Tables = dict[Rope | Sinusoid, Tensor]


def frequency_tables(model: Model, device: torch.device) -> Tables:
    """The frequencies that the model's bodies ask for."""
    kinds: list[Rope | Sinusoid] = []
    for _, op, _ in walk(model):
        if isinstance(op, Attention) and op.rope:
            kinds.append(op.rope)
        if isinstance(op, Embedding) and isinstance(op.position, SinusoidalPositions):
            kinds.append(op.position.table)
    return {kind: torch.tensor(kind.frequencies(), dtype=torch.float64, device=device) for kind in dict.fromkeys(kinds)}


def turns(rope: Rope, frequencies: Tensor, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos and signed sin for `rotate`, B 1 T dim: angles in float64, rounded once."""
    angles = positions[:, None, :, None].to(torch.float64) * frequencies.to(positions.device)  # B 1 T dim/2
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    if rope.interleaved:
        return cos.repeat_interleave(2, -1), torch.stack((-sin, sin), -1).flatten(-2)
    return torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)


def rotate(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """x · cos + partner(x) · sin, where the other channel of a pair stands dim/2 away, or next to it."""
    return torch.addcmul(x * cos, _partner(x, interleaved), sin)


def _partner(x: Tensor, interleaved: bool) -> Tensor:
    return x.reshape(*x.shape[:-1], -1, 2).flip(-1).flatten(-2) if interleaved else x.roll(x.shape[-1] // 2, -1)


def waves(table: Sinusoid, frequencies: Tensor, positions: Tensor, dtype: torch.dtype) -> Tensor:
    """B T width: sin and cos of the angles, taken in turn or one half each."""
    angles = positions.unsqueeze(-1).to(torch.float64) * frequencies.to(positions.device)  # B T ceil(width/2)
    sin, cos = angles.sin().to(dtype), angles.cos().to(dtype)
    both = torch.cat((sin, cos), -1) if table.halves else torch.stack((sin, cos), -1).flatten(-2)
    return both[..., : table.width]
