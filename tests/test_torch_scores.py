"""What is added to scores and joins them: ALiBi, bucketed distances, sinks; and queries that grow with their position."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch_help import normal
from transformers.models.t5.modeling_t5 import T5Attention

from archspec.exporters.torch.places import Places
from archspec.exporters.torch.tables import constants
from archspec.exporters.torch.words import TorchRun
from archspec.ops.words import Alibi, Buckets, Mask, Scores, Temperature

CPU = torch.device("cpu")
N, HEADS, PADS = 7, 6, [0, 2, 6]
THERE = torch.tensor([[0] * p + [1] * (N - p) for p in PADS])


def run(scores: Scores, mask: Tensor | None = None) -> TorchRun:
    tables = {scores.bias: constants(scores.bias)} if scores.bias else {}
    return TorchRun(tables, {"tokens": Places(N, CPU, mask=None if mask is None else mask > 0)})  # type: ignore[arg-type]


def heads() -> tuple[Tensor, Tensor, Tensor]:
    return normal(3, HEADS, N, 5), normal(3, 2, N, 5, seed=1), normal(3, 2, N, 4, seed=2)


def by_hand(
    q: Tensor, k: Tensor, v: Tensor, scores: Scores, pads: list[int], bias: Tensor, sinks: Tensor | None
) -> Tensor:
    """bias H N N, of query i and key j, already scaled or not."""
    out = torch.zeros(3, HEADS, N, 4, dtype=torch.float64)
    for b, h, i in ((b, h, i) for b, pad in enumerate(pads) for h in range(HEADS) for i in range(pad, N)):
        end = N if scores.mask.kind == "full" else i + 1
        start = max(pads[b], i + 1 - (scores.mask.window or N))
        s = k[b, h // 3, start:end] @ q[b, h, i] * scores.scale
        if scores.softcap:
            s = scores.softcap * torch.tanh(s / scores.softcap)
        s = s + bias[h, i, start:end]
        weights = s.exp() / (s.exp().sum() + (0 if sinks is None else sinks[h].exp()))
        out[b, h, i] = weights @ v[b, h // 3, start:end]
    return out


def check(scores: Scores, bias: Tensor, table: nn.Embedding | None = None, sinks: Tensor | None = None) -> None:
    q, k, v = heads()
    for mask, pads in ((None, [0, 0, 0]), (THERE, PADS)):
        y = run(scores, mask).attend(q, k, v, scores, table=table, sinks=sinks)
        want = by_hand(q, k, v, scores, pads, bias, sinks)
        assert y.isfinite().all()
        for b, pad in enumerate(pads):
            torch.testing.assert_close(y[b, :, pad:], want[b, :, pad:], atol=1e-12, rtol=0)


def test_slopes_of_the_paper() -> None:
    assert Alibi(8).slopes() == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert Alibi(6).slopes() == [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8]  # those of 4, then every other one of 8
    assert Alibi(4, max_bias=4.0).slopes() == [1 / 2, 1 / 4, 1 / 8, 1 / 16]


@pytest.mark.parametrize("softcap", [None, 1.5])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("mask", [Mask(), Mask(window=3), Mask("full")], ids=str)
def test_alibi_falls_with_distance(mask: Mask, scaled: bool, softcap: float | None) -> None:
    scores = Scores(mask, 0.4, softcap, bias=Alibi(HEADS, scaled=scaled))
    slopes = [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]
    bias = torch.tensor([[[-slope * abs(i - j) for j in range(N)] for i in range(N)] for slope in slopes])
    check(scores, bias.double() * (0.4 if scaled else 1.0))


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize(
    ("count", "far"), [(32, 128), (8, 12), (16, 64), (32, 256), (64, 512), (320, 800), (12, 100), (8, 20), (4, 16)]
)
def test_buckets_are_those_of_t5(count: int, far: int, two_sided: bool) -> None:
    ahead = torch.arange(-far - 50, far + 50)
    want = T5Attention._relative_position_bucket(ahead, two_sided, count, far)
    buckets = Buckets(count, far, two_sided)
    one_side, middle = buckets.of_distance(), far + 50
    assert [one_side[min(d, far)] for d in range(far + 50)] == want[: middle + 1].flip(0)[: far + 50].tolist()
    later = [one_side[min(d, far)] + count // 2 if two_sided else 0 for d in range(1, far + 50)]
    assert later == want[middle + 1 :].tolist()


@pytest.mark.parametrize("softcap", [None, 1.5])
@pytest.mark.parametrize("mask", [Mask(), Mask(window=3), Mask("full")], ids=str)
def test_a_bucketed_bias_is_looked_up(mask: Mask, softcap: float | None) -> None:
    kind = Buckets(4, 5, two_sided=mask.kind == "full")
    table = nn.Embedding(4, HEADS, dtype=torch.float64)
    rows = [0, 1, 2, 2, 3, 3, 3]  # of distances 0 ... 6: ln(d/2) / ln(5/2) · 2 passes 1 between 3 and 4
    if mask.kind == "full":  # two buckets a side: 0, and everything farther
        at = [[0 if i == j else 3 if j > i else 1 for j in range(N)] for i in range(N)]
    else:
        at = [[rows[max(i - j, 0)] for j in range(N)] for i in range(N)]
    check(Scores(mask, 0.4, softcap, bias=kind), table.weight[torch.tensor(at)].permute(2, 0, 1), table)


@pytest.mark.parametrize("bias", [None, Alibi(HEADS)])
@pytest.mark.parametrize("mask", [Mask(), Mask(window=3), Mask("full")], ids=str)
def test_a_sink_is_one_more_column_that_is_dropped(mask: Mask, bias: Alibi | None) -> None:
    scores, sinks, (q, k, v) = Scores(mask, 0.4, bias=bias), normal(HEADS, seed=4), heads()
    distance = (torch.arange(N) - torch.arange(N)[:, None]).abs()
    slopes = torch.tensor(Alibi(HEADS).slopes() if bias else [0.0] * HEADS, dtype=torch.float64)
    added = -slopes[:, None, None] * distance
    check(scores, added, sinks=sinks)
    see = torch.ones(N, N).tril().bool() if mask.kind != "full" else torch.ones(N, N).bool()
    see = see & (distance < (mask.window or N))
    s = (q @ k.repeat_interleave(3, 1).transpose(2, 3) * 0.4 + added).masked_fill(~see, float("-inf"))
    column = sinks[None, :, None, None].expand(3, -1, N, 1)
    want = torch.cat((s, column), -1).softmax(-1)[..., :-1] @ v.repeat_interleave(3, 1)
    torch.testing.assert_close(run(scores).attend(q, k, v, scores, sinks=sinks), want, atol=1e-12, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("with_sinks", [False, True])
def test_a_row_that_sees_nobody_stays_finite_and_so_do_its_gradients(with_sinks: bool, dtype: torch.dtype) -> None:
    scores = Scores(Mask(), 0.25, bias=Alibi(HEADS))
    q, k, v = ((x * 9).to(dtype).requires_grad_() for x in heads())
    sinks = torch.zeros(HEADS, dtype=dtype).requires_grad_() if with_sinks else None
    there = THERE.clone()
    there[2] = 0
    y = run(scores, there).attend(q, k, v, scores, sinks=sinks)
    y.square().sum().backward()
    assert y.isfinite().all()
    assert all(x.grad.isfinite().all() for x in (q, k, v))  # type: ignore[union-attr]
    if sinks is not None:
        assert (y[2] == 0).all()  # its whole softmax is in the sink


@pytest.mark.parametrize("offset", [0, 1])
def test_queries_grow_in_steps_or_smoothly(offset: int) -> None:
    t, ones = run(Scores(Mask(), 1.0), THERE), torch.ones(3, 2, N, 4, dtype=torch.float64)
    steps = t.temper(ones, t.positions("tokens"), Temperature(0.3, 3, offset))
    smooth = t.temper(ones, t.positions("tokens"), Temperature(0.3, 3, offset, power=True))
    for b, pad in enumerate(PADS):
        at = [p + offset for p in range(N - pad)]
        assert steps[b, 1, pad:, 2].tolist() == pytest.approx([1 + 0.3 * math.log(1 + p // 3) for p in at], abs=1e-12)
        assert smooth[b, 1, pad:, 2].tolist() == pytest.approx([(1 + p / 3) ** 0.3 for p in at], abs=1e-12)


def test_a_number_a_head_and_one_head_for_all() -> None:
    t, x, g, one = run(Scores(Mask(), 1.0)), normal(2, 3, 4, 5), normal(2, 4, 3, seed=1), normal(2, 1, 4, 2, seed=2)
    assert torch.equal(t.mul_heads(x, g)[1, 2, 3], x[1, 2, 3] * g[1, 3, 2])
    packed = t.add_heads(t.merge_heads(x), g[0, 0])
    torch.testing.assert_close(packed[1, 3, 11], x[1, 2, 3, 1] + g[0, 0, 2])
    both = t.concat(x, one)
    assert both.shape == (2, 3, 4, 7)
    assert torch.equal(both[1, 2, 3], torch.cat((x[1, 2, 3], one[1, 0, 3])))
    a, b = t.split(both, (5, 2))
    assert torch.equal(a, x)
    assert torch.equal(b[:, 2], one[:, 0])
