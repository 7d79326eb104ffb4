"""Mixtures of experts: which experts a token goes to, and linears that are stacked over experts.

Rows are sorted by their expert, so that an expert's work is one product of its rows. That product is an operator of its own:
`F.grouped_mm` takes few dtypes, and a loop over experts would break a compiled graph.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import register_flop_formula

from archspec.ops.words import Routing

from .precision import autocast_dtype, full, no_autocast


class Grouping:
    """Rows in the order of their experts. `experts` (N): the expert of each row, ascending."""

    def __init__(self, experts: Tensor) -> None:
        self.experts = experts
        self._ends: Tensor | None = None

    def ends(self, count: int) -> Tensor:
        """E (int32): where each expert's rows end."""
        if self._ends is None:
            every = torch.arange(count, device=self.experts.device)
            self._ends = torch.searchsorted(self.experts, every, right=True, out_int32=True)
        return self._ends


class StackedLinear(nn.Module):
    """One linear an expert: weight (E, out, inp), bias (E, out)."""

    def __init__(self, experts: int, inp: int, out: int, bias: bool) -> None:
        super().__init__()
        self.experts, self.inp, self.out = experts, inp, out
        self.weight = nn.Parameter(torch.empty(experts, out, inp))
        self.bias = nn.Parameter(torch.empty(experts, out)) if bias else None

    def extra_repr(self) -> str:
        return f"{self.experts}, {self.inp}, {self.out}, bias={self.bias is not None}"

    def forward(self, x: Tensor, group: Grouping) -> Tensor:
        """N inp, in the order of `group` -> N out."""
        weight: Tensor = self.weight
        bias: Tensor | None = self.bias
        if (dtype := autocast_dtype(x)) is not None:  # as nn.Linear does
            x, weight, bias = x.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
        y: Tensor = grouped_linear(x, weight, group.ends(self.experts))
        return y if bias is None else y + bias.index_select(0, group.experts)


# ------------------------------------------------------------------------------------------------------------- routing


def route(x: Tensor, w: nn.Linear, selection_bias: Tensor | None, routing: Routing) -> tuple[Tensor, Tensor]:
    """B T D -> weights B T k (float32 at least: half would send tokens to other experts), chosen B T k."""
    with no_autocast(x):
        logits = F.linear(full(x), full(w.weight), None if w.bias is None else full(w.bias))  # B T E
    if routing.score == "sparsemixer":
        return _weighted(*_one_by_one(logits, routing), routing)
    scores = _score(logits, routing)
    bias = None if selection_bias is None else selection_bias.to(scores.dtype)
    if bias is not None and routing.bias_on == "score":
        selection = scores + bias
    else:  # in the order of the logits, where scores that saturate have none
        ranked = logits if bias is None else logits + bias
        selection = ranked if routing.groups == 1 else _score(ranked, routing)
    if routing.groups > 1:
        selection = _best_groups(selection, routing)
    chosen = selection.topk(routing.k, -1).indices
    return _weighted(scores.gather(-1, chosen), chosen, routing)


def _weighted(weights: Tensor, chosen: Tensor, routing: Routing) -> tuple[Tensor, Tensor]:
    if routing.normalize:
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)  # scores may all be 0
    return (weights if routing.scale == 1.0 else weights * routing.scale), chosen


def _score(logits: Tensor, routing: Routing) -> Tensor:
    return logits.softmax(-1) if routing.score == "softmax" else logits.sigmoid()


def _one_by_one(logits: Tensor, routing: Routing) -> tuple[Tensor, Tensor]:
    """Each choice the best of those left, weighed among those left that are near it."""
    weights, chosen, left = [], [], logits
    for _ in range(routing.k):
        best, at = left.max(-1, keepdim=True)
        near = best - logits <= routing.within * torch.maximum(logits.abs(), best)
        weights.append(left.masked_fill(~near, float("-inf")).softmax(-1).gather(-1, at))
        chosen.append(at)
        left = left.scatter(-1, at, float("-inf"))
    return torch.cat(weights, -1), torch.cat(chosen, -1)


def _best_groups(selection: Tensor, routing: Routing) -> Tensor:
    """-inf for the experts outside the best groups."""
    groups = torch.unflatten(selection, -1, (routing.groups, -1))  # B T G E/G
    best = groups.amax(-1) if routing.group_score == "max" else groups.topk(2, -1).values.sum(-1)
    kept = torch.zeros_like(best, dtype=torch.bool).scatter(-1, best.topk(routing.keep, -1).indices, True)
    return groups.masked_fill(~kept.unsqueeze(-1), float("-inf")).flatten(-2)


# ---------------------------------------------------------------------------------------------------- grouped products


@torch.library.custom_op("archspec::grouped_linear", mutates_args=())
def grouped_linear(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    """N I, E O I, E -> N O: each row times its expert's weight; the rows of expert e end at ends[e]."""
    if x.is_cuda and x.dtype == torch.bfloat16:  # without a word from the device
        return F.grouped_mm(x, weight.transpose(1, 2), offs=ends)
    y = x.new_empty(x.shape[0], weight.shape[1])
    for expert, rows in _groups(ends):
        torch.mm(x[rows], weight[expert].t(), out=y[rows])
    return y


@torch.library.custom_op("archspec::grouped_outer", mutates_args=())
def grouped_outer(y: Tensor, x: Tensor, ends: Tensor) -> Tensor:
    """N O, N I, E -> E O I: the sum of yₙ xₙᵀ over the rows of each expert."""
    if x.is_cuda and x.dtype == torch.bfloat16:
        return F.grouped_mm(y.t(), x, offs=ends)
    weight = x.new_zeros(ends.shape[0], y.shape[1], x.shape[1])
    for expert, rows in _groups(ends):
        torch.mm(y[rows].t(), x[rows], out=weight[expert])
    return weight


def _groups(ends: Tensor) -> list[tuple[int, slice]]:
    """The experts that have rows, and which."""
    at = [0, *ends.tolist()]
    return [(e, slice(a, b)) for e, (a, b) in enumerate(pairwise(at)) if a < b]


@grouped_linear.register_fake
def _(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[1])


@grouped_outer.register_fake
def _(y: Tensor, x: Tensor, ends: Tensor) -> Tensor:
    return x.new_empty(ends.shape[0], y.shape[1], x.shape[1])


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _linear_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, weight, ends = ctx.saved_tensors
    grad, (for_x, for_weight, _) = grad.contiguous(), ctx.needs_input_grad
    return (
        grouped_linear(grad, weight.transpose(1, 2), ends) if for_x else None,
        grouped_outer(grad, x, ends) if for_weight else None,
        None,
    )


def _outer_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    y, x, ends = ctx.saved_tensors
    return grouped_linear(x, grad, ends), grouped_linear(y, grad.transpose(1, 2), ends), None


grouped_linear.register_autograd(_linear_backward, setup_context=_keep)
grouped_outer.register_autograd(_outer_backward, setup_context=_keep)


@register_flop_formula([torch.ops.archspec.grouped_linear, torch.ops.archspec.grouped_outer])
def _flops(a: Any, b: Any, ends: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """2 N I O: a is N I or N O, the other width is b's second."""
    return int(2 * a[0] * a[1] * b[1])
