"""Constants of positions on the device and, whatever the model's dtype, in float64."""

from __future__ import annotations

import torch
from torch import Tensor

from archspec.ops.attention import Attention, DistanceTable
from archspec.ops.base import Op, walk
from archspec.ops.embedding import Embedding, SinusoidalPositions
from archspec.ops.latent import LatentAttention
from archspec.ops.model import Model
from archspec.ops.rotary import Dynamic, LongRope
from archspec.ops.words import Alibi, Buckets, Distances, Rope, Sinusoid

Kind = Rope | Sinusoid | Alibi | Buckets | Distances
Tables = dict[Kind, Tensor]


def constant_tables(model: Model, device: torch.device) -> Tables:
    """The constants that the model's bodies ask for."""
    kinds = dict.fromkeys(kind for _, op, _ in walk(model) for kind in _kinds(op) if kind is not None)
    return {kind: constants(kind).to(device) for kind in kinds}


def _kinds(op: Op) -> list[Kind | None]:
    match op:
        case Attention() | LatentAttention():
            return [op.rope, op.scores.bias]
        case DistanceTable():
            return [op.distances]
        case Embedding(position=SinusoidalPositions() as position):
            return [position.table]
    return []


def constants(kind: Kind) -> Tensor:
    """Frequencies, slopes or buckets. Where a run's length bends the frequencies, by what in a second row."""
    match kind:
        case Alibi():
            return torch.tensor(kind.slopes(), dtype=torch.float64, device="cpu")
        case Buckets() | Distances():
            return torch.tensor(kind.of_distance(), device="cpu")
        case Rope(scaling=Dynamic() as scaling):
            rows: list[float] | list[list[float]] = [kind.frequencies(), scaling.exponents(kind.dim)]
        case Rope(scaling=LongRope() as scaling):
            rows = [kind.frequencies(), scaling.longer(kind.theta, kind.dim)]
        case _:
            rows = kind.frequencies()
    return torch.tensor(rows, dtype=torch.float64, device="cpu")


def turns(rope: Rope, table: Tensor, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos and signed sin for `rotate`, B 1 T dim: angles in float64, rounded once."""
    frequencies = _frequencies(rope, table.to(positions.device), positions)
    angles = positions[:, None, :, None].to(torch.float64) * frequencies  # B 1 T dim/2
    cos, sin = angles.cos(), angles.sin()
    if rope.magnitude != 1.0:
        cos, sin = cos * rope.magnitude, sin * rope.magnitude
    cos, sin = cos.to(dtype), sin.to(dtype)
    if rope.interleaved:
        return cos.repeat_interleave(2, -1), torch.stack((-sin, sin), -1).flatten(-2)
    return torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)


def _frequencies(rope: Rope, table: Tensor, positions: Tensor) -> Tensor:
    """dim/2, or B 1 1 dim/2 where each row's own length bends them. Positions never fall: the last is the row's highest."""
    length = positions[:, None, -1:, None] + 1  # B 1 1 1
    match rope.scaling:
        case Dynamic(factor=factor, original_context=original):
            growth = (length.to(torch.float64) * (factor / original) - (factor - 1)).clamp(min=1.0)
            return table[0] * growth ** table[1]
        case LongRope(original_context=original):
            return torch.where(length > original, table[1], table[0])
    return table


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
