"""PyTorch: the words on tensors. One `TorchRun` is one call of a model."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archspec.ops.bind import SlotRef
from archspec.ops.leaves import Stream
from archspec.ops.words import Activation, Counting, Distances, Mask, Pool, Rope, Routing, Scores, Sinusoid, Temperature

from .attention import allowed, distance_bias, distance_rows, masked, plain_form, related, spelt_out
from .cache import Cache
from .experts import Grouping, StackedLinear, route
from .places import Places
from .precision import full
from .tables import Tables, rotate, turns, waves

Made = TypeVar("Made")


def _gelu_tanh_8(x: Tensor) -> Tensor:
    """0.79788456 in place of sqrt(2/π): below float64 that is lost in rounding, and the fused form does."""
    if x.dtype != torch.float64:
        return F.gelu(x, approximate="tanh")
    return 0.5 * x * (1.0 + torch.tanh(0.79788456 * x * (1.0 + 0.044715 * x * x)))


ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "relu_squared": lambda x: F.relu(x).square(),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_tanh_8": _gelu_tanh_8,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "silu": F.silu,
    "mish": F.mish,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": F.softplus,
    "identity": lambda x: x,
}


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
        self.group: Grouping | None = None
        self._memo: list[tuple[Hashable, object, Any]] = []

    def made(self, what: Hashable, of: object, make: Callable[[], Made]) -> Made:
        """What `make` gave for this once a call; `of` is compared by identity."""
        for key, source, value in self._memo:
            if source is of and key == what:
                return value  # type: ignore[no-any-return]
        value = make()
        self._memo.append((what, of, value))
        return value

    # ---- weights

    def linear(self, x: Tensor, w: nn.Linear | StackedLinear) -> Tensor:
        return w(x) if self.group is None else w(x, self.group)  # type: ignore[no-any-return]

    def by_head(self, x: Tensor, w: nn.Linear, heads: int) -> Tensor:
        if x.shape[1] == 1:  # an ordinary linear
            y = self.linear(x.squeeze(1), w)
            return self.split_heads(y, heads, w.out_features // heads)
        return torch.einsum("bhti,hoi->bhto", x, torch.unflatten(matrix(w), 0, (x.shape[1], -1)))

    def back_by_head(self, x: Tensor, w: nn.Linear, heads: int) -> Tensor:
        return torch.einsum("bhto,hoi->bhti", x, torch.unflatten(matrix(w), 0, (x.shape[1], -1)))

    def embedding(self, ids: Tensor, w: nn.Embedding, offset: int = 0) -> Tensor:
        return w(ids + offset if offset else ids)  # type: ignore[no-any-return]

    def table(self, w: nn.Embedding) -> Tensor:
        return w.weight.unsqueeze(0)

    def rms_norm(self, x: Tensor, w: Tensor | None, eps: float, shift: float) -> Tensor:
        if shift == 0.0 and (w is None or (w.dim() == 1 and w.dtype == x.dtype)):
            return F.rms_norm(x, x.shape[-1:], w, eps)
        y = F.rms_norm(full(x), x.shape[-1:], None, eps)
        return _affine(y, w, None, shift).to(x.dtype)

    def layer_norm(
        self, x: Tensor, w: Tensor | None, b: Tensor | None, eps: float, shift: float, outside: bool
    ) -> Tensor:
        if shift == 0.0 and not outside and all(v is None or v.dim() == 1 for v in (w, b)):
            return F.layer_norm(x, x.shape[-1:], w, b, eps)
        y = full(x)
        if outside:
            y = y - y.mean(-1, keepdim=True)
            variance = y.square().mean(-1, keepdim=True)
            # the root of 0 has no gradient; that of the least number is nothing beside eps
            y = y / (variance.clamp(min=torch.finfo(y.dtype).tiny).sqrt() + eps)
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

    def split(self, x: Tensor, widths: tuple[int, ...]) -> Sequence[Tensor]:
        return torch.split(x, [*widths], -1)

    def concat(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.cat((a, b.expand(-1, a.shape[1], -1, -1)), -1)

    # ---- elementwise

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return a * b

    def mul_heads(self, x: Tensor, g: Tensor) -> Tensor:
        return x * g.transpose(1, 2).unsqueeze(-1)

    def add_heads(self, x: Tensor, w: Tensor) -> Tensor:
        return (torch.unflatten(x, -1, (w.shape[0], -1)) + w.unsqueeze(-1)).flatten(-2)

    def weigh(self, x: Tensor, w: Tensor, shift: float) -> Tensor:
        return (full(x) * (full(w) + shift)).to(x.dtype)

    def blend(self, x: Tensor, f: Tensor, w: Tensor, temperature: float, floor: float) -> Tensor:
        at = full(w) / temperature
        b = at.sigmoid()
        keep = ((-at).sigmoid() * (1.0 + b)).clamp(min=floor).sqrt()  # 1 - b², without cancellation
        return (keep * full(x) + b * full(f)).to(x.dtype)

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

    def xielu(self, x: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        p, n = F.softplus(full(positive)).to(x.dtype), (0.5 + F.softplus(full(negative))).to(x.dtype)
        return torch.where(x > 0, p * x * x, n * (torch.expm1(x.clamp(max=-1e-6)) - x)) + 0.5 * x

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
        cos, sin = self.made(rope, positions, lambda: turns(rope, self.tables[rope], positions, x.dtype))
        if rope.dim == x.shape[-1]:
            return rotate(x, cos, sin, rope.interleaved)
        turned, rest = x[..., : rope.dim], x[..., rope.dim :]
        return torch.cat((rotate(turned, cos, sin, rope.interleaved), rest), -1)

    def temper(self, x: Tensor, positions: Tensor, temperature: Temperature) -> Tensor:
        return x * self.made(temperature, positions, lambda: _tempers(temperature, positions).to(x.dtype))

    # ---- attention

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        scores: Scores,
        cache: tuple[SlotRef, SlotRef] | None = None,
        *,
        added: Tensor | None = None,
        table: nn.Embedding | None = None,
        sinks: Tensor | None = None,
    ) -> Tensor:
        if cache is not None:
            k, v = self.remember(k, cache[0]), self.remember(v, cache[1])
        p = scores.dropout if self.training else 0.0
        see: Tensor | None
        grouped = q.shape[1] != k.shape[1]
        explicit = scores.softcap is not None or sinks is not None  # no fused kernel bends scores
        explicit |= grouped and k.shape[3] != v.shape[3]  # or shares keys beside values of another width
        if scores.bias is not None:
            see, causal = self.biased(scores, table, full(q).dtype if explicit else q.dtype), False
        else:
            see, causal = self.seen(scores.mask, explicit or added is not None)
        if explicit:
            return spelt_out(q, k, v, see, scores, sinks, p, added)
        if added is not None:
            see = masked(added, see)
        return F.scaled_dot_product_attention(q, k, v, see, p, causal, scale=scores.scale, enable_gqa=grouped)

    def seen(self, mask: Mask, explicit: bool) -> tuple[Tensor | None, bool]:
        """Who sees whom, B 1 T S, or None for everyone; and, unless `explicit`, whether it is "causal, T = S" instead."""
        return self.made((mask, explicit), None, lambda: self._see(mask, explicit))

    def _see(self, mask: Mask, explicit: bool) -> tuple[Tensor | None, bool]:
        prefix = self.prefix_length if mask.kind == "prefix" else None
        if form := plain_form(mask, self.places[mask.keys], prefix, explicit):
            return form
        return allowed(mask, *self._sides(mask), prefix).unsqueeze(1), False

    def _sides(self, mask: Mask) -> tuple[Tensor, Tensor]:
        """B T, B S: where queries and keys stand."""
        places = self.places[mask.keys]
        cache = self.cache if mask.keys == "tokens" else None
        columns = places.columns if cache is None else cache.columns(mask.rows)
        return places.queries(), places.keys(columns)

    def biased(self, scores: Scores, table: nn.Embedding | None, dtype: torch.dtype) -> Tensor:
        """B H T S: what is added to the scores, the mask in it. Layers with one table share it."""
        assert scores.bias is not None
        constants = self.tables[scores.bias]

        def make() -> Tensor:
            queries, keys = self._sides(scores.mask)
            ahead = keys.unsqueeze(1) - queries.unsqueeze(2)
            return masked(distance_bias(scores, ahead, constants, table).to(dtype), self.seen(scores.mask, True)[0])

        return self.made((scores, dtype), table.weight if table else None, make)

    def relate(
        self, q: Tensor, k: Tensor, row_q: Tensor | None, row_k: Tensor | None, distances: Distances, mask: Mask
    ) -> Tensor:
        rows = self.made((distances, mask), None, lambda: self._distance_rows(distances, mask))  # B 1 T S
        found = []
        if row_k is not None:
            by_row = related(q, row_k)  # B H T R
            found.append(by_row.gather(3, rows.expand(*by_row.shape[:3], -1)))
        if row_q is not None:
            by_row = related(k, row_q).transpose(2, 3)  # B H R S
            found.append(by_row.gather(2, rows.expand(*by_row.shape[:2], -1, -1)))
        return found[0] if len(found) == 1 else found[0] + found[1]

    def _distance_rows(self, distances: Distances, mask: Mask) -> Tensor:
        queries, keys = self._sides(mask)
        behind = queries.unsqueeze(2) - keys.unsqueeze(1)
        return distance_rows(distances, behind, self.tables[distances]).unsqueeze(1)

    def remember(self, x: Tensor, slot: SlotRef) -> Tensor:
        return x if self.cache is None else self.cache.append(slot, x)

    def once(self, slots: Sequence[SlotRef], make: Callable[[], Sequence[Tensor]]) -> Sequence[Tensor]:
        return make() if self.cache is None else self.cache.once(slots, make)

    def stepping(self, most: int | None, step: Callable[[], Tensor], whole: Callable[[], Tensor]) -> Tensor:
        at = self.places["tokens"]
        past = self.cache is not None and not (isinstance(at.past, int) and at.past == 0)
        return step() if past and (most is None or at.length <= most) else whole()

    # ---- experts

    def route(self, x: Tensor, w: nn.Linear, bias: Tensor | None, routing: Routing) -> tuple[Tensor, Tensor]:
        return route(x, w, bias, routing)

    def experts(
        self, x: Tensor, weights: Tensor, chosen: Tensor, on_input: bool, body: Callable[[Tensor], Tensor]
    ) -> Tensor:
        k = chosen.shape[-1]
        expert, order = chosen.flatten().sort(stable=True)
        rows = x.flatten(0, -2).index_select(0, order // k)  # B·T·k D, by expert
        if on_input:
            rows = rows * weights.flatten()[order].unsqueeze(1).to(x.dtype)
        self.group = Grouping(expert)
        rows = body(rows)
        self.group = None
        y = torch.unflatten(rows.index_select(0, order.argsort()), 0, chosen.shape)  # B T k D
        return (y if on_input else y * weights.unsqueeze(-1).to(x.dtype)).sum(-2)

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


def matrix(w: nn.Linear) -> Tensor:
    """O I: a linear's weight. What stands in its place (an adapter, integers in blocks) is asked what it makes of a unit matrix."""
    if type(w) is nn.Linear and type(w.weight) in (nn.Parameter, Tensor):
        return w.weight
    return w(torch.eye(w.in_features, dtype=w.weight.dtype, device=w.weight.device)).T  # type: ignore[no-any-return]


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


def _tempers(temperature: Temperature, positions: Tensor) -> Tensor:
    """B T -> B 1 T 1"""
    at = positions + temperature.offset
    if temperature.power:
        factor = (1.0 + at.to(torch.float64) / temperature.period) ** temperature.slope
    else:
        factor = 1.0 + temperature.slope * torch.log1p((at // temperature.period).to(torch.float64))
    return factor[:, None, :, None]
