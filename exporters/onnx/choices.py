"""Which tokens' experts are chosen clearly. Near a tie rounding decides, and two right programs go different ways from there."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from archspec.exporters.torch.experts import route
from archspec.exporters.torch.module import Transformer
from archspec.ops.moe import Moe

#: The share of a router's logits that may be rounding: some ten times what deep models gather in float32.
ROUNDING = 1e-4
#: A choice is clear if it stays the same however the router's weights are shaken, so many times and back.
SHAKES = 4


@contextmanager
def watched(module: Transformer) -> Iterator[list[Tensor]]:
    """Collects a table for each router that runs inside: B T, is the choice clear?"""
    seen: list[Tensor] = []

    def look(moe: Any, args: tuple[Any, Tensor]) -> None:
        seen.append(_clear(moe, args[1]))

    moes = [m for m in module.modules() if isinstance(getattr(m, "op", None), Moe)]
    hooks = [m.register_forward_pre_hook(look) for m in moes]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _clear(moe: Any, x: Tensor) -> Tensor:
    """B T D -> B T"""
    bias = moe.selection_bias if moe.op.selection_bias else None
    router, weight = copy.deepcopy(moe.router), moe.router.weight

    def chosen(weight: Tensor) -> Tensor:
        router.weight.data = weight
        return route(x, router, bias, moe.op.routing)[1].sort().values

    generator = torch.Generator().manual_seed(0)
    settled, clear = chosen(weight), torch.ones(x.shape[:-1], dtype=torch.bool)
    for _ in range(SHAKES):
        shake = torch.randn(weight.shape, generator=generator) * weight.abs().mean() * ROUNDING
        for shaken in (weight + shake, weight - shake):
            clear &= (chosen(shaken) == settled).all(-1)
    return clear


def untouched(seen: list[Tensor], tokens: Tensor, causal: bool) -> Tensor:
    """B T of those tokens (B T) that no unclear choice has an effect on. A causal model's later ones cannot touch earlier ones.

    A table of another shape is of other tokens, which may touch all of their row.
    """
    clear = tokens.clone()
    for table in seen:
        if table.shape != tokens.shape:
            clear &= table.all(1, keepdim=True)
        elif causal:
            clear &= (table | ~tokens).cumprod(1).bool()
        else:
            clear &= (table | ~tokens).all(1, keepdim=True)
    return clear
