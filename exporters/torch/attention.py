"""Attention: who sees whom, what is added to the scores, and the form that no fused kernel has."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archspec.ops.words import Alibi, Distances, Mask, Scores

from .places import Places
from .precision import full


def plain_form(mask: Mask, places: Places, prefix: Tensor | None, explicit: bool) -> tuple[None, bool] | None:
    """The forms that need no mask tensor: everyone is seen (None, False), or "causal, T = S" (None, True)."""
    if places.mask is not None or not isinstance(places.past, int):
        return None
    if mask.kind == "full" and mask.window is None and mask.chunk is None:
        return None, False
    if mask.kind == "causal" and mask.chunk is None and places.length == 1:
        return None, False
    if not explicit and mask.kind != "full" and prefix is None and places.past == 0 and _wide(mask, places):
        return None, True
    return None


def _wide(mask: Mask, places: Places) -> bool:
    """Does neither window nor chunk cut anything off? Not asked while tracing, where a length may stand for any other."""
    limit = mask.window or mask.chunk
    return limit is None or (not torch.compiler.is_compiling() and places.length <= limit)


def allowed(mask: Mask, queries: Tensor, keys: Tensor, prefix: Tensor | None) -> Tensor:
    """B T, B S places (-1: no key) -> B T S bool, sizes of 1 where nothing depends on them."""
    i, j = queries.unsqueeze(2), keys.unsqueeze(1)
    see = j >= 0
    if mask.kind != "full":
        near = j <= i
        see = see & (near if prefix is None else near | (j < prefix[:, None, None]))
    if mask.window is not None:
        see = see & ((i - j).abs() <= mask.window if mask.kind == "full" else i - j < mask.window)
    if mask.chunk is not None:
        see = see & (i // mask.chunk == j // mask.chunk)
    return see


def distance_bias(scores: Scores, ahead: Tensor, constants: Tensor, table: nn.Embedding | None) -> Tensor:
    """ahead B T S = j - i -> B H T S. constants: H, the slopes of the heads, or the bucket of each distance."""
    kind, distance = scores.bias, ahead.abs()
    if isinstance(kind, Alibi):
        slopes = constants * (-scores.scale if kind.scaled else -1.0)
        return slopes[:, None, None] * distance.unsqueeze(1)
    assert kind is not None
    assert table is not None
    if not kind.two_sided:
        distance = (-ahead).clamp(min=0)
    bucket = constants[distance.clamp(max=kind.max_distance)]
    if kind.two_sided:
        bucket = bucket + (ahead > 0) * (kind.count // 2)
    return table(bucket).permute(0, 3, 1, 2)  # type: ignore[no-any-return]


def distance_rows(distances: Distances, behind: Tensor, buckets: Tensor) -> Tensor:
    """behind B T S = i - j -> B T S: the row of each distance. buckets: that of each distance, up to the last."""
    bucket = buckets[behind.abs().clamp(max=len(buckets) - 1)] * behind.sign()
    return (bucket + distances.buckets).clamp(0, distances.rows - 1)


def related(x: Tensor, rows: Tensor) -> Tensor:
    """B H T C, 1 H R C -> B H T R; the side of fewer heads stands for several."""
    heads = max(x.shape[1], rows.shape[1])
    x, rows = (y if y.shape[1] == heads else y.repeat_interleave(heads // y.shape[1], 1) for y in (x, rows))
    return torch.einsum("bhtc,hrc->bhtr", x, rows[0])  # a product would repeat the rows for each of the batch


def masked(bias: Tensor, see: Tensor | None) -> Tensor:
    """B H T S: the bias, and a number too low to matter where nothing is seen.

    Not -inf, so that a row that sees nobody stays finite; half of the lowest number, so that scores can be added to it.
    """
    return (bias if see is None else bias.masked_fill(~see, torch.finfo(bias.dtype).min / 2)).contiguous()


def spelt_out(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    see: Tensor | None,
    scores: Scores,
    sinks: Tensor | None,
    p: float,
    added: Tensor | None,
) -> Tensor:
    """Attention without a fused kernel: scores in float32 at least.

    see: B 1 T S bool, or B H T S to be added. sinks: H. added: B H T S, before a cap.
    """
    (b, h, t, c), kv = q.shape, k.shape[1]
    if t == 1 or not torch.compiler.is_compiling():
        q = q.reshape(b, kv, h // kv * t, c)  # the queries of one key head are rows of one product
    elif h != kv:  # a traced length, which may stand for any other, is left an axis of its own
        k, v = k.repeat_interleave(h // kv, 1), v.repeat_interleave(h // kv, 1)
    s = (full(q) @ full(k).transpose(2, 3) * scores.scale).view(b, h, t, k.shape[2])  # B H T S
    if added is not None:
        s = s + added
    if scores.softcap is not None:
        s = torch.tanh(s / scores.softcap) * scores.softcap
    if see is not None:  # the lowest number, not -inf: a row that sees nobody stays finite
        s = s.masked_fill(~see, torch.finfo(s.dtype).min) if see.dtype == torch.bool else s + see
    a = F.dropout(s.softmax(-1).to(v.dtype), p) if p else s.softmax(-1).to(v.dtype)
    y = (a.view(*q.shape[:3], k.shape[2]) @ v).view(b, h, t, v.shape[3])
    if sinks is None:
        return y
    total = s.logsumexp(-1, keepdim=True)  # e^total of the denominator is the keys', e^sink the sink's
    return y * (total - sinks.to(s.dtype)[:, None, None]).sigmoid().to(y.dtype)
