"""The bounds of a device as tables."""

from __future__ import annotations

from collections.abc import Sequence

from archspec.compiler.limits import Limits

from .tables import Column, Table
from .units import exact, flops, many, size


def tables(found: Limits) -> Sequence[Table]:
    """Speed at each context, and what of the memory is taken."""
    d = found.device
    sequences = many(found.batch, "sequence")
    stepping = any(limit.step for limit in found.limits)
    calls = [("prompt", "prompt"), *([("step", "token")] if stepping else [])]
    speed = Table(
        f"{found.name} in {found.precision} on {d.title}: at the most, {sequences}",
        (
            Column("context", "context", exact, True),
            *(
                column
                for call, title in calls
                for column in (
                    Column(f"{call}_seconds", title, seconds, True),
                    Column(f"{call}_tokens_per_second", "tokens/s", rate, True),
                    Column(f"{call}_bound", "waits for"),
                )
            ),
        ),
    )
    for limit in found.limits:
        made = [limit.prompt, *([limit.step] if limit.step else [])]
        speed.rows.append([limit.context, *(cell for c in made for cell in (c.seconds, c.tokens_per_second, c.bound))])
    rates = f"{rate(d.bandwidth / 1e9)} GB/s from memory, {flops(found.peak)}/s"
    speed.notes.append(f"{rates}: a call takes no less time than its bytes and than its FLOPs do")
    cached = any(limit.cache for limit in found.limits)
    memory = Table(
        f"Memory of {size(d.memory)}",
        (
            Column("context", "context", exact, True),
            Column("weight_bytes", "weights", size, True),
            *((Column("cache_bytes", "KV cache", size, True),) if cached else ()),
            Column("left_bytes", "left", _left, True),
        ),
    )
    for limit in found.limits:
        memory.rows.append([limit.context, limit.weights, *([limit.cache] if cached else []), limit.left])
    memory.notes.append("activations, and what a runtime takes for itself, are not in it")
    return [speed, memory]


def _left(n: int) -> str:
    return size(n) if n >= 0 else f"{size(-n)} too little"


def seconds(x: float) -> str:
    """14.7 ms"""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if x * scale >= 1 or unit == "µs":
            return f"{x * scale:.3g} {unit}" if x * scale < 1000 else f"{x * scale:,.0f} {unit}"
    raise AssertionError


def rate(x: float) -> str:
    """221, 69,537, 8.31"""
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"
