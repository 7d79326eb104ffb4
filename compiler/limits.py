"""How fast can it be? Bounds by the roofline    (Williams et al. 2009, doi:10.1145/1498765.1498785).

A call takes no less time than its FLOPs at the device's peak, nor than its bytes at the memory's bandwidth: weights, which are read
once for all sequences, and keys and values. What neither counts only adds to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from archspec.errors import UsageError
from archspec.ops.head import LmHead
from archspec.ops.model import Model
from archspec.ops.record import Record

from .count import DEFAULT_LENGTH, Counts, count
from .devices import Device
from .precision import Precision
from .reads import bytes_read


class Call(Record):
    """One call on a device: `tokens` new ones of all sequences."""

    tokens: int
    flops: int
    #: Of weights, and of keys and values that are read.
    bytes: int
    #: At the device's peak, and at its bandwidth.
    computing: float
    reading: float

    @property
    def seconds(self) -> float:
        """The least it takes."""
        return max(self.computing, self.reading)

    @property
    def bound(self) -> Literal["compute", "memory"]:
        """What it waits for."""
        return "compute" if self.computing > self.reading else "memory"

    @property
    def tokens_per_second(self) -> float:
        """The most there can be."""
        return self.tokens / self.seconds

    def record(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "tokens": self.tokens, "flops": self.flops, "bytes": self.bytes, "seconds": self.seconds,
            "tokens_per_second": self.tokens_per_second, "bound": self.bound,
        }  # fmt: skip


class Limit(Record):
    """The bounds at a context. prompt: a call that reads it whole. step: one that makes its last token, where there is a cache."""

    context: int
    prompt: Call
    step: Call | None
    #: Bytes of the weights, of the caches of so many tokens, and of the device.
    weights: int
    cache: int
    memory: int

    @property
    def left(self) -> int:
        """Bytes beside weights and caches; below 0, that are lacking."""
        return self.memory - self.weights - self.cache

    def record(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "context": self.context, "fits": self.left >= 0, "weight_bytes": self.weights, "cache_bytes": self.cache,
            "prompt": self.prompt.record(), "step": self.step.record() if self.step else None,
        }  # fmt: skip


class Limits(Record):
    """What a device allows, at several contexts."""

    name: str
    device: Device
    precision: Precision
    batch: int
    limits: tuple[Limit, ...]

    @property
    def peak(self) -> float:
        """FLOP/s of the device in what is computed in."""
        return self.device.peak(self.precision.compute)

    def record(self) -> dict[str, Any]:
        """As plain data: bytes, seconds, FLOPs. Keys are stable; docs/counting.md documents them."""
        d = self.device
        return {
            "name": self.name,
            "device": {"title": d.title, "memory": d.memory, "bandwidth": d.bandwidth, "peak": self.peak},
            "precision": self.precision.record(),
            "batch": self.batch,
            "limits": [limit.record() for limit in self.limits],
        }


def limits(
    model: Model,
    device: Device,
    precision: Precision,
    *,
    context_length: int | None = None,
    batch: int = 1,
    contexts: Sequence[int] = (),
) -> Limits:
    """Bounds at each context, in tokens; beside an encoder, of its input. By default 1,024 and the longest there is.

    Raises UsageError for a context that the model does not have, and for a type that the device does not compute in.
    """
    counts = count(model, context_length=context_length, batch=batch, length=1, precision=precision)
    longest = counts.context or DEFAULT_LENGTH
    found = sorted(set(contexts) or {min(DEFAULT_LENGTH, longest), longest})
    if counts.context and found[-1] > counts.context:
        raise UsageError(f"{model.name} has a context of {longest:,} tokens, and {found[-1]:,} are asked for.")
    peak = device.peak(precision.compute)
    beside, generates = model.form == "encoder_decoder", isinstance(model.head, LmHead) and model.form != "encoder"

    def call(counts: Counts, tokens: int, first: bool) -> Call:
        flops, new = dict(counts.causal), counts.lengths.length
        if generates:  # logits of the last token alone
            flops["head"] = flops.get("head", 0) // new
        total, cache = sum(flops.values()), 0 if first else counts.cache_bytes
        read = bytes_read(model, counts.storage, batch * new, first=first) + cache
        return Call(batch * tokens, total, read, total / peak, read / device.bandwidth)

    def limit(context: int) -> Limit:
        here = counts.at(source=context) if beside else counts
        prompt = here if beside else counts.at(length=context)
        step = here.at(length=1, past=1 if beside else context - 1) if generates else None
        held = step or prompt
        return Limit(
            context, call(prompt, context, True), call(step, 1, False) if step else None,
            held.weight_bytes, held.cache_bytes, device.memory,
        )  # fmt: skip

    return Limits(model.name, device, precision, batch, tuple(map(limit, found)))
