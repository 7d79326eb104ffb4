"""Mixtures of experts: routing by brute force, experts one by one, and the products of sorted rows."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from tiny import tiny
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck
from torch.library import opcheck
from torch.utils.flop_counter import FlopCounterMode
from torch_help import normal, perturbed, tokens

from archspec.compiler.flops import Lengths, count_flops
from archspec.exporters.torch.experts import Grouping, StackedLinear, grouped_linear, grouped_outer, route
from archspec.exporters.torch.module import build
from archspec.exporters.torch.places import Places
from archspec.exporters.torch.words import TorchRun
from archspec.ops.words import Routing

EXPERTS = 8
CLOSE = {"atol": 1e-12, "rtol": 0}


def by_brute_force(logits: list[float], bias: list[float] | None, r: Routing) -> dict[int, float]:
    """Expert -> weight, for one token."""

    def score(x: list[float]) -> list[float]:
        if r.score == "sigmoid":
            return [1 / (1 + math.exp(-v)) for v in x]
        return [math.exp(v) / sum(map(math.exp, x)) for v in x]

    scores = selection = score(logits)
    if bias is not None:
        moved = [a + b for a, b in zip(scores if r.bias_on == "score" else logits, bias, strict=True)]
        selection = moved if r.bias_on == "score" else score(moved)
    size = EXPERTS // r.groups
    groups = [range(g * size, (g + 1) * size) for g in range(r.groups)]

    def worth(group: range) -> float:
        best = sorted((selection[e] for e in group), reverse=True)
        return best[0] if r.group_score == "max" else sum(best[:2])

    allowed = [e for group in sorted(groups, key=worth, reverse=True)[: r.keep] for e in group]
    chosen = sorted(allowed, key=lambda e: -selection[e])[: r.k]
    total = sum(scores[e] for e in chosen) if r.normalize else 1.0
    return {e: scores[e] / total * r.scale for e in chosen}


GROUPS = [(1, 1, "max"), (4, 2, "max"), (4, 2, "top2_sum"), (2, 1, "top2_sum")]


@pytest.mark.parametrize("groups", GROUPS, ids=str)
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("bias_on", [None, "score", "logit"])
@pytest.mark.parametrize("score", ["softmax", "sigmoid"])
def test_routing_by_brute_force(score: str, bias_on: str | None, normalize: bool, groups: tuple[int, int, str]) -> None:
    r = Routing(3, score, normalize, 2.5, bias_on or "score", *groups)  # type: ignore[arg-type]
    x, linear = normal(4, 9, 5), nn.Linear(5, EXPERTS, dtype=torch.float64)
    bias = normal(EXPERTS, seed=1) if bias_on else None
    weights, chosen = route(x, linear, bias, r)
    assert weights.shape == chosen.shape == (4, 9, 3)
    logits = linear(x)
    for at in itertools.product(range(4), range(9)):
        want = by_brute_force(logits[at].tolist(), None if bias is None else bias.tolist(), r)
        got = dict(zip(chosen[at].tolist(), weights[at].tolist(), strict=True))
        assert got == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize("layer", [1, 2])
def test_experts_one_by_one(layer: int) -> None:
    """Layer 1 weighs what an expert gives, layer 2 what it is given, and has a gated expert for all beside."""
    moe = perturbed("moe").get_submodule(f"decoder.layers.{layer}.ffn")
    t, x = TorchRun({}, {"tokens": Places(9, torch.device("cpu"))}), normal(2, 9, 32)
    weights, chosen = route(x, moe.router, None, moe.op.routing)
    expert, want = moe.expert, torch.zeros(2, 9, 32, dtype=torch.float64)
    for b, n, i in itertools.product(range(2), range(9), range(2)):
        weight, e = weights[b, n, i], chosen[b, n, i]
        row = x[b, n] * weight if layer == 2 else x[b, n]
        y = expert.down.weight[e] @ (F.silu(expert.gate.weight[e] @ row) * (expert.up.weight[e] @ row))
        want[b, n] += y if layer == 2 else y * weight
    if layer == 2:
        want += moe.shared(t, x) * torch.sigmoid(moe.shared_gate(x))
    torch.testing.assert_close(moe(t, x), want, **CLOSE)  # type: ignore[arg-type]
    assert t.group is None


def test_a_bias_is_that_of_the_rows_expert() -> None:
    linear, x = StackedLinear(3, 4, 5, True).double(), normal(6, 4)
    with torch.no_grad():
        linear.weight.copy_(normal(3, 5, 4, seed=1))
        linear.bias.copy_(normal(3, 5, seed=2))  # type: ignore[union-attr]
    experts = [0, 0, 0, 2, 2, 2]  # the middle one has no rows
    y = linear(x, Grouping(torch.tensor(experts)))
    for row, e in enumerate(experts):
        torch.testing.assert_close(y[row], linear.weight[e] @ x[row] + linear.bias[e], **CLOSE)  # type: ignore


ENDS = torch.tensor([2, 2, 5, 6], dtype=torch.int32)


def products() -> tuple[Tensor, Tensor, Tensor]:
    """Six rows of 3, four experts of 3 → 2, six rows of 2."""
    return (x.requires_grad_() for x in (normal(6, 3), normal(4, 2, 3, seed=1), normal(6, 2, seed=2)))  # type: ignore


def test_grouped_products_by_hand_and_by_finite_differences() -> None:
    x, w, y = products()
    expert = [0, 0, 2, 2, 2, 3]
    rows = torch.stack([w[e] @ row for e, row in zip(expert, x, strict=True)])
    torch.testing.assert_close(grouped_linear(x, w, ENDS), rows, **CLOSE)  # type: ignore[arg-type]
    outer = torch.zeros(4, 2, 3, dtype=torch.float64)
    for row, e in enumerate(expert):
        outer[e] += torch.outer(y[row], x[row])
    torch.testing.assert_close(grouped_outer(y, x, ENDS), outer, **CLOSE)  # type: ignore[arg-type]
    for op, args in ((grouped_linear, (x, w, ENDS)), (grouped_outer, (y, x, ENDS))):
        assert gradcheck(op, args)
        assert gradgradcheck(op, args)


def test_grouped_products_are_well_behaved_operators() -> None:
    x, w, y = products()
    opcheck(grouped_linear, (x, w, ENDS))
    opcheck(grouped_outer, (y, x, ENDS))
    opcheck(grouped_linear, (y, w.detach().transpose(1, 2), ENDS))  # weights may be a view


def test_a_training_step_is_three_forward_passes_of_flops() -> None:
    net, ids = build(tiny("experts"), device="meta"), torch.zeros(2, 9, dtype=torch.long, device="meta")
    flops = count_flops(net.op)
    forward = sum(p.at(flops.value(Lengths(2, 9))) for p in flops.dense.values())
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        net(ids).sum().backward()
    assert counter.get_total_flops() == 3 * forward


def test_a_training_step_compiles_to_one_graph() -> None:
    net, ids = perturbed("experts").train(), tokens(2, 9)
    want = torch.autograd.grad(net(ids).square().sum(), [*net.parameters()])
    torch._dynamo.reset()
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    got = torch.autograd.grad(compiled(ids).square().sum(), [*net.parameters()])
    torch._dynamo.reset()
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, atol=1e-9, rtol=1e-9)


def test_an_expert_that_no_token_chose_learns_nothing() -> None:
    net = perturbed("moe")
    net(tokens(1, 1)).sum().backward()
    gradient = net.get_parameter("decoder.layers.1.ffn.expert.up.weight").grad
    assert gradient is not None
    assert [bool(g.any()) for g in gradient].count(True) == 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("autocast", [False, True])
def test_routing_in_half_is_single(dtype: torch.dtype, autocast: bool) -> None:
    r = Routing(2, "softmax", True)
    x, linear = normal(4, 9, 64).to(dtype), nn.Linear(64, EXPERTS).to(dtype)
    with torch.autocast("cpu", dtype, enabled=autocast):
        weights, chosen = route(x, linear, None, r)
    assert weights.dtype == torch.float32
    want = route(x.double(), linear.double(), None, r)
    assert torch.equal(chosen, want[1])
    torch.testing.assert_close(weights.double(), want[0], atol=1e-6, rtol=0)


def test_scores_that_are_all_zero_divide_nothing_by_nothing() -> None:
    linear = nn.Linear(5, EXPERTS)
    with torch.no_grad():
        linear.weight.zero_(), linear.bias.fill_(-1000.0)
    weights, _ = route(torch.ones(1, 1, 5), linear, None, Routing(2, "sigmoid", True))
    assert weights.isfinite().all()
