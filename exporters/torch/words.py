"""PyTorch: the words on tensors. One `TorchRun` is one call of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archspec.ops.bind import SlotRef
from archspec.ops.leaves import Stream
from archspec.ops.words import Activation, Counting, Mask, Pool, Rope, Scores, Sinusoid

from .cache import Cache
from .places import Places
from .tables import Tables, rotate, turns, waves

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "relu_squared": lambda x: F.relu(x).square(),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "silu": F.silu,
    "mish": F.mish,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "identity": lambda x: x,
}
_HALF = (torch.bfloat16, torch.float16)


def full(x: Tensor) -> Tensor:
    """x in float32 where it is half: what statistics and softmax are taken of."""
    return x.float() if x.dtype in _HALF else x


class TorchRun:
    """One call: it owns the places of its tokens, the masks and tables made from them, and the cache. `Words[Tensor]`."""

    def __init__(
        self,
        tables: Tables,
        places: dict[Stream, Places],
        *,
        cache: Cache | None = None,
        types: Mapping[Stream, Tensor | None] | None = None,
        prefix_length: Tensor | None = None,
        last_only: bool = False,
        training: bool = False,
    ) -> None:
        self.tables, self.places, self.cache = tables, places, cache
        self.types, self.prefix_length = types or {}, prefix_length
        self.last_only, self.training = last_only, training
        self._turns: list[tuple[Rope, Tensor, tuple[Tensor, Tensor]]] = []
        self._seen: dict[tuple[Mask, bool, bool], tuple[Tensor | None, bool]] = {}

    # ---- weights

    def linear(self, x: Tensor, w: nn.Linear) -> Tensor:
        return w(x)  # type: ignore[no-any-return]

    def embedding(self, ids: Tensor, w: nn.Embedding, offset: int = 0) -> Tensor:
        return w(ids + offset if offset else ids)  # type: ignore[no-any-return]

    def rms_norm(self, x: Tensor, w: Tensor | None, eps: float, shift: float) -> Tensor:
        if shift == 0.0 and (w is None or (w.dim() == 1 and w.dtype == x.dtype)):
            return F.rms_norm(x, x.shape[-1:], w, eps)
        y = F.rms_norm(full(x), x.shape[-1:], None, eps)
        return _affine(y, w, None, shift).to(x.dtype)

    def layer_norm(
        self, x: Tensor, w: Tensor | None, b: Tensor | None, eps: float, shift: float, outside: bool
    ) -> Tensor:
        if shift == 0.0 and not outside and (w is None or w.dim() == 1):
            return F.layer_norm(x, x.shape[-1:], w, b, eps)
        y = full(x)
        if outside:
            y = y - y.mean(-1, keepdim=True)
            y = y / (y.square().mean(-1, keepdim=True).sqrt() + eps)
        else:
            y = F.layer_norm(y, x.shape[-1:], None, None, eps)
        return _affine(y, w, b, shift).to(x.dtype)

    def l2_norm(self, x: Tensor, eps: float) -> Tensor:
        return F.normalize(full(x), dim=-1, eps=eps).to(x.dtype)

    # ---- shape

    def split_heads(self, x: Tensor, heads: int, width: int) -> Tensor:
        return x.view(x.shape[0], x.shape[1], -1, width).transpose(1, 2)

    def merge_heads(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(2)

    # ---- elementwise

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return a * b

    def scale(self, x: Tensor, by: float) -> Tensor:
        return x * by

    def shift(self, x: Tensor, by: float) -> Tensor:
        return x + by

    def clamp(self, x: Tensor, low: float | None, high: float | None) -> Tensor:
        return x.clamp(low, high)

    def softcap(self, x: Tensor, cap: float) -> Tensor:
        return torch.tanh(x / cap) * cap

    def activate(self, x: Tensor, kind: Activation) -> Tensor:
        return ACTIVATIONS[kind](x)

    def dropout(self, x: Tensor, p: float) -> Tensor:
        return F.dropout(x, p) if p and self.training else x

    # ---- positions

    def positions(self, stream: Stream, count: Counting = "unpadded") -> Tensor:
        return self.places[stream].positions(count)

    def token_types(self, stream: Stream) -> Tensor:
        given = self.types.get(stream)
        return torch.zeros_like(self.places[stream].columns).unsqueeze(0) if given is None else given

    def sinusoid(self, x: Tensor, positions: Tensor, table: Sinusoid, offset: int = 0) -> Tensor:
        return x + waves(table, self.tables[table], positions + offset, x.dtype)

    def rope(self, x: Tensor, positions: Tensor, rope: Rope) -> Tensor:
        cos, sin = self._turned(rope, positions, x.dtype)
        if rope.dim == x.shape[-1]:
            return rotate(x, cos, sin, rope.interleaved)
        turned, rest = x[..., : rope.dim], x[..., rope.dim :]
        return torch.cat((rotate(turned, cos, sin, rope.interleaved), rest), -1)

    def _turned(self, rope: Rope, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        for made, at, table in self._turns:
            if at is positions and made == rope:
                return table
        table = turns(rope, self.tables[rope], positions, dtype)
        self._turns.append((rope, positions, table))
        return table

    # ---- attention

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, scores: Scores, cache: tuple[SlotRef, SlotRef] | None = None
    ) -> Tensor:
        kept = cache is not None and self.cache is not None
        if cache is not None and self.cache is not None:
            k, v = self.cache.append(cache[0], k), self.cache.append(cache[1], v)
        p = scores.dropout if self.training else 0.0
        if scores.softcap is not None:  # no fused kernel bends scores
            return _capped(q, k, v, self.seen(scores.mask, kept, explicit=True)[0], scores, p)
        see, causal = self.seen(scores.mask, kept)
        grouped = q.shape[1] != k.shape[1]
        return F.scaled_dot_product_attention(q, k, v, see, p, causal, scale=scores.scale, enable_gqa=grouped)

    def seen(self, mask: Mask, kept: bool, explicit: bool = False) -> tuple[Tensor | None, bool]:
        """Who sees whom, B 1 T S, or None for everyone; and, unless `explicit`, whether it is "causal, T = S" instead."""
        key = mask, kept, explicit
        if key not in self._seen:
            self._seen[key] = self._see(mask, kept, explicit)
        return self._seen[key]

    def _see(self, mask: Mask, kept: bool, explicit: bool) -> tuple[Tensor | None, bool]:
        places = self.places[mask.keys]
        prefix = self.prefix_length if mask.kind == "prefix" else None
        if places.mask is None and isinstance(places.past, int):  # every key is there: the forms with a faster kernel
            if mask.kind == "full" and mask.window is None and mask.chunk is None:
                return None, False
            if mask.kind == "causal" and mask.chunk is None and places.length == 1:
                return None, False
            if not explicit and mask.kind != "full" and prefix is None and places.past == 0 and _wide(mask, places):
                return None, True
        columns = self.cache.columns(mask.rows) if kept and self.cache is not None else places.columns
        return _allowed(mask, places.queries(), places.keys(columns), prefix).unsqueeze(1), False

    def once(self, slots: Sequence[SlotRef], make: Callable[[], Sequence[Tensor]]) -> Sequence[Tensor]:
        return make() if self.cache is None else self.cache.once(slots, make)

    # ---- the ends of a model

    def wanted(self, x: Tensor) -> Tensor:
        return x[:, -1:] if self.last_only else x

    def pool(self, x: Tensor, kind: Pool, stream: Stream) -> Tensor:
        tokens = self.places[stream].tokens()  # B T
        if kind == "mean":
            return full(x).mean(1).to(x.dtype) if tokens is None else _mean(x, tokens)
        if tokens is None:
            return x[:, 0 if kind == "first" else -1]
        columns = self.places[stream].columns - self.places[stream].past
        after = torch.where(tokens, columns, x.shape[1] if kind == "first" else -1)
        at = after.amin(1) if kind == "first" else after.amax(1)  # B
        at = at.clamp(0, x.shape[1] - 1)  # a row without a token has no answer, and no error
        return x.gather(1, at[:, None, None].expand(-1, 1, x.shape[2])).squeeze(1)

    # ---- structure

    def fold(self, layers: Sequence[Any], x: Tensor, *shared: Tensor) -> Tensor:
        for layer in layers:
            x = layer(self, x, *shared)
        return x


def _affine(y: Tensor, w: Tensor | None, b: Tensor | None, shift: float) -> Tensor:
    """y · (shift + w) + b, in the dtype of y."""
    if w is not None:
        w = w.to(y.dtype)
        y = y * (w + shift if shift else w)
    return y if b is None else y + b.to(y.dtype)


def _mean(x: Tensor, tokens: Tensor) -> Tensor:
    """B T D, B T -> B D: over the tokens that are there."""
    weight = tokens.unsqueeze(-1).to(full(x).dtype)
    return ((full(x) * weight).sum(1) / weight.sum(1).clamp(min=1)).to(x.dtype)


def _wide(mask: Mask, places: Places) -> bool:
    """Does neither window nor chunk cut anything off? Not asked while tracing, where a length may stand for any other."""
    limit = mask.window or mask.chunk
    return limit is None or (not torch.compiler.is_compiling() and places.length <= limit)


def _allowed(mask: Mask, queries: Tensor, keys: Tensor, prefix: Tensor | None) -> Tensor:
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


def _capped(q: Tensor, k: Tensor, v: Tensor, see: Tensor | None, scores: Scores, p: float) -> Tensor:
    """Attention spelt out: scores in float32 at least, query heads of one key head as more rows of it."""
    assert scores.softcap is not None
    b, h, t, c = q.shape
    q = q.reshape(b, k.shape[1], -1, c)  # B K H/K·T C
    s = full(q @ k.transpose(2, 3)) * scores.scale  # B K H/K·T S
    s = torch.tanh(s / scores.softcap) * scores.softcap
    s = s.view(b, h, t, -1)
    if see is not None:  # the lowest number, not -inf: a row that sees nobody stays finite
        s = s.masked_fill(~see, torch.finfo(s.dtype).min)
    a = F.dropout(s.softmax(-1).to(v.dtype), p) if p else s.softmax(-1).to(v.dtype)
    return (a.view(b, k.shape[1], -1, k.shape[2]) @ v).view(b, h, t, -1)
