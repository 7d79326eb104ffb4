"""Attention with the past in one buffer, rotation inside: `com.microsoft.GroupQueryAttention`.

It knows how many tokens each row of a batch has, not where padding stands: a call of several tokens takes none, and on the CPU one
after a past takes one row only. Rows of different lengths are read one by one and go on together. What it is given as a past may be
the buffer that it gives as the present; a window's buffer keeps its window, however long the text (`sliding_window_cache`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from archspec.ops.rotary import Dynamic, LongRope
from archspec.ops.words import Rope

from ..graph import Array, Builder, without_tail
from ..heads import Heads
from ..words import Attended, OnnxRun
from .fusion import Fusion

#: The kernel wants heads of whole vector registers; with a rotation inside, of two.
WIDTH, ROTATED_WIDTH = 8, 16
INT32 = ir.DataType.INT32.value


def fuse_attention(run: OnnxRun) -> Fusion | None:
    """Every causal attention with a cache of keys and values that the kernel computes."""
    if run.part != "cached" or not run.attended:
        return None
    left: Counter[str] = Counter()
    for attended in run.attended:
        reason = _unfit(attended)
        if reason:
            left[reason] += 1
        else:
            _fuse(run, attended)
    if not left:
        _without_padding(run)
    return Fusion("GroupQueryAttention", "attentions", len(run.attended) - left.total(), left)


def _without_padding(run: OnnxRun) -> None:
    """Where every attention is fused a call has no padding, and none stands between tokens: the last token is the last column, and
    columns since the first token are tokens. So a mask may be wider than the text, as the steps of a recorded CUDA graph have it.
    """
    g = run.g
    if run.last is not None:
        x, last = run.last
        node = last.producer()
        assert node is not None
        with g.before(node):
            g.swap(last, g.last(g.now(x), g.const([1]), 1))
    columns = g.memo.get(("columns", "tokens", "every"))
    if columns is not None:
        node = columns.producer()
        assert node is not None
        with g.before(node):
            g.swap(columns, run.places.columns("tokens", "unpadded"))
        g.graph.sort()


def _unfit(a: Attended) -> str | None:
    """Why the kernel does not compute this."""
    mask = a.scores.mask
    if mask.keys != "tokens" or mask.kind != "causal" or a.cache is None:
        return _other(a)
    if mask.chunk:
        return "chunks"
    if a.added is not None:
        return "scores against distances"
    if a.scores.bias is not None:
        return f"a bias by {type(a.scores.bias).__name__}"
    key, value = (ref.slot for ref in a.cache)
    if key.width != value.width:
        return "values of another width than keys"
    if key.width % WIDTH:
        return f"a head of {key.width}, no multiple of {WIDTH}"
    return None if all(isinstance(x, Heads) for x in (a.q, a.k, a.v)) else "heads that are taken apart"


def _other(a: Attended) -> str:
    mask = a.scores.mask
    if mask.keys != "tokens":
        return "keys of a source"
    return f"a {mask.kind} mask" if mask.kind != "causal" else "keys that are made of a latent"


def _fuse(run: OnnxRun, a: Attended) -> None:
    assert a.cache is not None
    assert isinstance(a.q, Heads)
    assert isinstance(a.k, Heads)
    assert isinstance(a.v, Heads)
    assert isinstance(a.y, Heads)
    g, node = run.g, a.y.packed.producer()
    assert node is not None
    past = [run.past(slot) for slot in a.cache]
    old = [run.present[slot] for slot in a.cache]
    options: dict[str, Any] = {"num_heads": a.q.heads, "kv_num_heads": a.k.heads, "scale": a.scores.scale}
    if a.scores.softcap:
        options["softcap"] = a.scores.softcap
    window = a.scores.mask.window
    if window:
        options |= {"local_window_size": window, "sliding_window_cache": 1}
    with g.before(node):
        rope = _rotation(run, a)
        tables: Sequence[ir.Value] = ()
        given = (a.q, a.k, a.v)
        if rope:
            options |= {"do_rotary": 1, "rotary_interleaved": int(rope.interleaved)}
            given = (run.rotated[a.q][0], run.rotated[a.k][0], a.v)
            tables = _tables(run, rope)
        sinks = None if a.sinks is None else run.vector(a.sinks.path, (a.q.heads,))
        extra = without_tail([*(tables or (None, None)), None, None, sinks])
        ins = [*_projections(g, given), *past, *_lengths(run), *extra]
        y, *present = g.nodes("com.microsoft.GroupQueryAttention", 3, *ins, **options)
    y.metadata_props["archspec.attention"] = "grouped query"
    g.swap(a.y.packed, y)
    dim = f"capacity_{window}" if window else "capacity"
    for slot, value, before, after in zip(a.cache, past, old, present, strict=True):
        g.swap(before, after)
        for port in (value, after):
            port.shape = ir.Shape(["batch", slot.slot.heads, dim, slot.slot.width])


def _projections(g: Builder, given: Sequence[Heads]) -> list[ir.Value | None]:
    """Queries, keys and values; the product that all three are split from, where there is one."""
    values = [g.now(x.packed) for x in given]
    node = values[0].producer()
    if node is not None and node.op_type == "Split" and list(node.outputs) == values:
        return [node.inputs[0], None, None]
    return [*values]


def _rotation(run: OnnxRun, a: Attended) -> Rope | None:
    """The one rotation of queries and keys, if the kernel can do it: angles that hang on nothing but the position."""
    both = [run.rotated.get(x) for x in (a.q, a.k)]
    ropes = {rotated[1] for rotated in both if rotated}
    if None in both or len(ropes) > 1 or run.context is None:
        return None
    (rope,) = ropes
    assert a.cache is not None
    fits = a.cache[0].slot.width % ROTATED_WIDTH == 0 and rope.dim % ROTATED_WIDTH == 0
    return rope if fits and not isinstance(rope.scaling, Dynamic | LongRope) else None


def _tables(run: OnnxRun, rope: Rope) -> tuple[ir.Value, ir.Value]:
    """Cosine and sine of every position of the context, (context, dim / 2)."""
    assert run.context is not None
    shape = run.context, rope.dim // 2

    def angles() -> Array:
        return np.outer(np.arange(shape[0], dtype=np.float64), rope.frequencies())

    def make() -> tuple[ir.Value, ir.Value]:
        name = f"rotary.{sum(v.startswith('rotary.') for v in run.g.graph.initializers) // 2}"
        cos = run.g.table(f"{name}.cos", shape, lambda: np.cos(angles()) * rope.magnitude)
        return cos, run.g.table(f"{name}.sin", shape, lambda: np.sin(angles()) * rope.magnitude)

    return run.g.once(("rotary", rope), make)


def _lengths(run: OnnxRun) -> tuple[ir.Value, ir.Value]:
    """Each row's tokens but one (B), past ones included, and the mask's columns. A row of padding counts as one token."""
    g = run.g

    def make() -> tuple[ir.Value, ir.Value]:
        mask = run.places.mask("tokens")
        tokens = g.op("Max", g.op("ReduceSum", mask, g.const([1]), keepdims=0), g.const([1]))
        total = g.op("Squeeze", g.op("Shape", mask, start=1, end=2))
        return g.op("Cast", g.op("Sub", tokens, g.const([1])), to=INT32), g.op("Cast", total, to=INT32)

    return g.once("lengths", make)
