"""Fresh weights. Drawn in float32 and rounded once, from a generator of their own."""

from __future__ import annotations

import re
from math import sqrt
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from archspec.language.model import FanInInit, NormalInit, XavierInit
from archspec.ops.base import Tensor as Stored
from archspec.ops.leaves import Linear, Table, Vector
from archspec.ops.model import Model

if TYPE_CHECKING:
    from .module import Transformer

Init = NormalInit | XavierInit | FanInInit


@torch.no_grad()
def initialise(module: Transformer, model: Model, init: Init, seed: int | None) -> None:
    """Fills every stored tensor. A seed makes it repeatable and leaves the global generator alone; None draws from that."""
    device = next(module.parameters()).device
    generator = None if seed is None else torch.Generator(device).manual_seed(seed)
    for stored in model.tensors():
        target = module.tensor(stored.path)
        drawn = target if target.dtype == torch.float32 else torch.empty_like(target, dtype=torch.float32)
        _fill(drawn, stored, init, _depth(model, stored), generator)
        if drawn is not target:
            target.copy_(drawn)


def _depth(model: Model, stored: Stored) -> int:
    """Layers of the stack that a tensor is in."""
    match = re.match(r"(encoder|decoder)\.layers\.", stored.path)
    return len(model.stacks()[match[1]].layers) if match else 0


def _fill(x: Tensor, stored: Stored, init: Init, layers: int, generator: torch.Generator | None) -> None:
    leaf = stored.leaf
    if isinstance(leaf, Vector):
        x.fill_(leaf.init)
    elif stored.path.endswith(".bias"):
        x.zero_()
    else:
        _weight(x, leaf, init, layers, generator)


def _weight(x: Tensor, leaf: Linear | Table, init: Init, layers: int, generator: torch.Generator | None) -> None:
    """A table's width counts as its input: what it is where it is the head as well."""
    into, out = (leaf.inp, leaf.out) if isinstance(leaf, Linear) else (leaf.width, leaf.rows)
    match init:
        case NormalInit():
            deep = init.residual == "depth_scaled" and isinstance(leaf, Linear) and leaf.residual
            std = init.std / sqrt(2 * layers) if deep else init.std
            if init.truncated:
                nn.init.trunc_normal_(x, 0.0, std, -2 * std, 2 * std, generator=generator)
            else:
                x.normal_(0.0, std, generator=generator)
        case XavierInit():
            bound = init.gain * sqrt(6 / (into + out))
            x.uniform_(-bound, bound, generator=generator)
        case FanInInit():
            x.normal_(0.0, init.gain / sqrt(into), generator=generator)
