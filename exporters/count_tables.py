"""The count report as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from archspec.compiler.count import Counts
from archspec.compiler.fits import Fit
from archspec.compiler.indices import indices
from archspec.compiler.parameters import CacheRun, LayerRun
from archspec.ops.base import Tensor

from .tables import Column, Table
from .units import exact, flops, many, share, short, size

NAMES = {"token_type_embedding": "token types"}
Run = TypeVar("Run", LayerRun, CacheRun)


def _name(component: str) -> str:
    return NAMES.get(component, component.replace("_", " "))


def _key(run: LayerRun | CacheRun) -> str:
    """`decoder.0-11`, of what is read by programs."""
    return f"{run.stack}.{run.first}" + (f"-{run.last}" if run.last > run.first else "")


def _alike(c: Counts, runs: Iterable[Run], same: Callable[[Run], object]) -> Iterator[tuple[str, int, Run]]:
    """(`0, 2, …, 40`, how many, the first run of them): the layers of a stack of which the same is to be said."""
    several = len({run.stack for run in c.parameters.layers}) > 1
    found: dict[object, list[Run]] = {}
    for run in runs:
        found.setdefault((run.stack, same(run)), []).append(run)
    for group in found.values():
        spans = indices(range(run.first, run.last + 1) for run in group)
        yield f"{group[0].stack} {spans}" if several else spans, sum(run.count for run in group), group[0]


def tables(c: Counts, explain: bool = False, fit: Fit | None = None, remark: str | None = None) -> list[Table]:
    """Parameters, layers, FLOPs, and memory of a report. remark: of the memory."""
    out = [_parameters(c), _layers(c), _flops(c, explain)]
    if c.caches:
        out.append(_cache(c))
    out.append(_memory(c))
    out[-1].notes += [remark] if remark else []
    return [*out, *([_fit(fit)] if fit is not None else [])]


def _parameters(c: Counts) -> Table:
    p = c.parameters
    t = Table(
        f"{c.name}: {exact(p.total)} parameters ({short(p.total)})",
        (
            Column("component", ""),
            Column("parameters", "parameters", exact, True),
            Column("share", "share", share, True),
        ),
    )
    for component, n in p.by_component.items():
        t.rows.append((_name(component), n, n / p.total))
    t.rows += [None, ("total", p.total, 1.0)]
    t.rows.append(("  of which looked up (embedding)", p.embedding, p.embedding / p.total))
    t.rows.append(("  non-embedding", p.non_embedding, p.non_embedding / p.total))
    if p.active != p.total:
        t.rows.append(("  active per token", p.active, p.active / p.total))
    t.notes += [f"{path} is {to}: counted once" for path, to in p.ties.items()]
    if p.untied != p.total:
        t.notes.append(f"with nothing tied or shared it would be {exact(p.untied)}")
    return t


def _layers(c: Counts) -> Table:
    components = list(dict.fromkeys(name for run in c.parameters.layers for name in run.by_component))
    t = Table(
        "Layers",
        (
            Column("layers", ""),
            Column("count", "count", exact, True),
            *(Column(name, _name(name), exact, True) for name in components),
            Column("each", "each", exact, True),
            Column("all", "all", exact, True),
        ),
    )
    for label, count, run in _alike(
        c, c.parameters.layers, lambda run: (run.shared, *sorted(run.by_component.items()))
    ):
        name, every = (f"{label} (shared)", 0) if run.shared else (label, count * run.total)
        t.rows.append((name, count, *(run.by_component.get(n, 0) for n in components), run.total, every))
    return t


def _flops(c: Counts, explain: bool) -> Table:
    n = c.lengths
    beside = f", {many(n.source, 'source token')}" if n.source else ""
    dense, causal = sum(c.dense.values()), sum(c.causal.values())
    t = Table(
        f"FLOPs of one forward pass: batch {n.batch:,}, {many(n.length, 'new token')} after {n.past:,}{beside}",
        (
            Column("component", ""),
            Column("dense", "dense", flops, True),
            Column("causal", "causal", flops, True),
            Column("share", "share of dense", share, True),
        ),
    )
    for component, d in c.dense.items():
        t.rows.append((_name(component), d, c.causal[component], d / dense))
    t.rows += [None, ("total", dense, causal, 1.0)]
    if not n.past:
        t.rows.append(("training (3 × forward)", 3 * dense, 3 * causal, None))
    t.notes.append("1 multiply-add is 2 FLOPs. dense: every query-key pair; causal: only those the masks let through.")
    if explain:
        t.notes += list(_explained(c))
    return t


def _explained(c: Counts) -> Iterator[str]:
    n = c.lengths
    value = c.flops.value(n)
    for name, poly in c.formula.items():
        yield f"{name:6} = {poly}"
        yield f"{'':6} = {exact(poly.at(value))}"
    letters = f"B = {n.batch:,} batch, T = {many(n.length, 'new token')}, P = {n.past:,} past"
    yield letters + (
        f", M = {many(n.source, 'source token')}, first = {int(n.past == 0)} (1 while P = 0)" if n.source else ""
    )
    for name, (most, step) in c.flops.calls.items():
        few = "new tokens" if most is None else f"at most {many(most, 'new token')}"
        yield f"{name} = {value(name)}: 1 in {f'a call of {few} after a past' if step else 'any other call'}, 0 otherwise"
    for name in c.flops.masks:
        yield f"{name} = {value(name):,} query-key pairs of a sequence"
    for kind, elements in c.uncounted.items():
        yield f"not counted: {kind}, {exact(elements)} elements"


def _cache(c: Counts) -> Table:
    n = c.lengths
    t = Table(
        f"KV cache in {c.precision.compute}: {size(c.cache_bytes)} for {n.batch:,} × {n.past + n.length:,} tokens",
        (
            Column("layers", "layers"),
            Column("count", "count", exact, True),
            Column("bytes", "bytes each", exact, True),
            Column("all", "all", exact, True),
            Column("kept", "kept"),
        ),
    )
    names = dict.fromkeys(name.replace("_", " ") for run in c.caches for name, _ in run.slots)
    t.notes.append(f"kept for each token: tensors × heads × width; the tensors are {', '.join(names)}")
    for label, count, run in _alike(c, c.caches, lambda run: run.slots):
        kept = " + ".join(
            f"{n} × {s.heads} × {s.width}"
            + (f", last {s.rows:,}" if s.rows else "")
            + (" (source)" if s.stream == "source" else "")
            for s, n in Counter(s for _, s in run.slots).items()
        )
        t.rows.append((label, count, c.run_bytes(run), count * c.run_bytes(run), kept))
    if len(t.rows) > 1:
        t.rows += [None, ("total", sum(r.count for r in c.caches), None, c.cache_bytes, "")]
    return t


def _memory(c: Counts) -> Table:
    t = Table(
        f"Memory in {c.precision}",
        (Column("what", ""), Column("bytes", "bytes", exact, True), Column("size", "", size, True)),
    )
    m = {key: n for key, n in c.memory.items() if n is not None}
    rows = [("weights", m["weights"])]
    if c.caches:
        rows += [("KV cache", c.cache_bytes), ("inference: weights and cache", m["inference"])]
    if c.training:
        rows += [("gradients", m["gradients"]), ("AdamW state", m["optimizer"])]
        rows.append(("activations kept for backward", m["activations"]))
        rows.append(("training: weights, gradients, state, activations", m["training"]))
        rows.append(("  with one checkpoint per layer", m["training_checkpointed"]))
    t.rows += [(name, n, n) for name, n in rows]
    if c.precision.blocks:
        t.notes += [str(c.storage), f"{c.bits:.2f} bits a weight on average"]
    return t


def _fit(f: Fit) -> Table:
    c, n = f.counts, f.counts.lengths
    beside = f", {many(n.source, 'source token')}" if n.source else ""
    called = f"{n.batch:,} × {many(n.past + n.length, 'token')}{beside}"
    t = Table(
        f"{'Fits' if f else 'Does not fit'} into {size(f.bytes)} ({exact(f.bytes)} bytes): {called}",
        (Column("what", ""), Column("bytes", "bytes", exact, True), Column("left", "")),
    )
    names = {
        "weights": "weights",
        "inference": "weights and KV cache",
        "training": "training",
        "training_checkpointed": "  with one checkpoint per layer",
    }
    for key in names:
        if (left := f.left[key]) is not None and (c.caches or key != "inference"):
            t.rows.append((names[key], c.memory[key], f"{size(abs(left))} {'left' if left >= 0 else 'too much'}"))
    if c.caches:
        t.rows += [None, (f"longest context, batch {n.batch:,}", None, _longest(f.tokens, c.context))]
        batch = f.batch
        most = "any" if batch is None else exact(batch) if batch else "none"
        t.rows.append((f"largest batch of {many(n.past + n.length, 'token')}", None, most))
    t.notes.append("not in it: what inference computes on the way (activations), and what a runtime takes for itself")
    return t


def _longest(tokens: int | None, context: int | None) -> str:
    if not tokens:
        return "any" if tokens is None else "none"
    if context is None:
        return many(tokens, "token")
    return (
        f"all of its {many(context, 'token')}" if tokens == context else f"{tokens:,} of its {many(context, 'token')}"
    )


def tidy(c: Counts, fit: Fit | None = None) -> Table:
    """All numbers of a report, one a row: its table, the row there, what is counted, and how much."""
    t = Table(c.name, tuple(Column(key, key) for key in ("table", "row", "quantity", "value")))
    p, how, blocks = c.parameters, c.precision, c.precision.blocks
    t.rows.append(("precision", how.name, "weight_bits", blocks.bits if blocks else 8 * c.width))
    t.rows.append(("precision", how.compute, "compute_bits", 8 * c.width))
    if blocks:
        t.rows.append(("precision", how.name, "block", blocks.size))
        t.rows.append(("precision", how.name, "symmetric", int(blocks.symmetric)))
    t.rows += [("precision", pattern, "keep", 1) for pattern in dict.fromkeys(how.keep)]
    totals = {"total": p.total, "embedding": p.embedding, "non_embedding": p.non_embedding, "active": p.active}
    for row, n in {**p.by_component, **totals, "untied": p.untied}.items():
        t.rows.append(("parameters", row, "parameters", n))
    for layers in p.layers:
        row = _key(layers)
        for quantity, n in {**layers.by_component, "total": layers.total, "count": layers.count}.items():
            t.rows.append(("layers", row, quantity, n))
    for quantity, flops_of in (("dense", c.dense), ("causal", c.causal)):
        total = sum(flops_of.values())
        for row, n in {**flops_of, "total": total, **({} if c.lengths.past else {"training": 3 * total})}.items():
            t.rows.append(("flops", row, quantity, n))
    t.rows += [("flops", row, "uncounted_elements", n) for row, n in c.uncounted.items()]
    for run in c.caches:
        t.rows.append(("kv_cache", _key(run), "bytes", c.run_bytes(run)))
        t.rows.append(("kv_cache", _key(run), "count", run.count))
    t.rows.append(("kv_cache", "total", "bytes", c.cache_bytes))
    t.rows += [("memory", row, "bytes", n) for row, n in c.memory.items() if n is not None]
    if fit is not None:
        t.rows += [("fits", row, "bytes_left", n) for row, n in fit.left.items() if n is not None]
        most = {"tokens": fit.tokens, "batch": fit.batch}
        t.rows += [("fits", "most", quantity, n) for quantity, n in most.items() if n is not None]
    return t


def paths(c: Counts, stored: Iterable[Tensor]) -> Table:
    """Every stored tensor by its path."""
    columns = (
        Column("path", "path"),
        Column("shape", "shape"),
        Column("component", "component", _name),
        Column("parameters", "parameters", exact, True),
        Column("stored", "stored"),
        Column("bytes", "bytes", exact, True),
    )
    t = Table(f"{c.name}: stored tensors", columns)
    for x in stored:
        shape = " × ".join(map(str, x.shape))
        t.rows.append((x.path, shape, x.component, x.size, c.storage.stored_as(x), c.storage.bytes_of(x)))
    return t
