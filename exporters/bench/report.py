"""What was measured, as tables for people and as a record for programs."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from archspec.exporters.runtime.cuda import driver
from archspec.exporters.tables import Cell, Column, Table
from archspec.exporters.units import flops, many, size

from .figures import Figure
from .measure import Measured, Results

#: The version of the record.
RECORD = 1
DISTRIBUTIONS = ("archspec-compiler", "numpy", "torch")

Row = tuple[int, str, Measured, dict[str, Figure]]


def figures(results: Results, engine: Measured, context: int) -> dict[str, Figure]:
    """The figures of one engine at one context, by their names in the record."""
    plan, limits, turns = results.plan, results.limits[context], engine.turns[context]
    first = Figure(t.first for t in turns)
    reading = "prefill" if results.plan.generates else "forward"
    found = {
        "first_token_seconds" if results.plan.generates else "forward_seconds": first,
        f"{reading}_tokens_per_second": Figure(plan.batch * context / t for t in first),
        f"{reading}_share_of_limit": Figure(results.prompt_flops(context) / t for t in first).over(limits.multiply),
    }
    if results.plan.generates:
        step = [t.step for t in turns if t.step is not None]
        found["decode_tokens_per_second"] = Figure(plan.batch / t for t in step)
        read = Figure(results.step_bytes(context) / t for t in step)
        found["decode_share_of_limit"] = read.over(limits.read)
        found["decode_share_of_ordinary_limit"] = read.over(limits.ordinary)
    return found


def rows(results: Results) -> Iterator[Row]:
    """(context, engine's name, engine, its figures)"""
    for context in results.plan.contexts:
        for name, engine in results.engines.items():
            yield context, name, engine, figures(results, engine, context)


# ---------------------------------------------------------------------------------------------------------- for programs


def record(results: Results) -> dict[str, Any]:
    """Everything, as plain data: seconds, bytes, FLOPs and shares of 1. docs/performance.md documents it."""
    plan, folder = results.plan, results.folder
    return {
        "archspec_bench": RECORD,
        "model": {
            "name": folder.spec.name,
            "folder": str(folder.path),
            **{key: folder.manifest[key] for key in ("form", "head", "target", "precision", "parameters")},
            "weight_bytes_of_a_step": results.work.weight_bytes(plan.batch),
        },
        "settings": {
            "contexts": list(plan.contexts), "batch": plan.batch, "new": plan.new, "rounds": plan.rounds,
            "threads": results.setup.threads, "device": results.device,
        },
        "machine": machine(),
        "versions": versions(),
        "limits": [
            {
                "context": context,
                "prompt_flops": results.prompt_flops(context),
                "step_bytes": results.step_bytes(context) if results.plan.generates else None,
                "read_bytes_per_second": Figure(limits.read).record(),
                "read_ordinary_bytes_per_second": Figure(limits.ordinary).record(),
                "multiply_flops_per_second": Figure(limits.multiply).record(),
            }
            for context, limits in results.limits.items()
        ],
        "engines": [
            {
                "name": name,
                **engine.about,
                "peak_resident_bytes": engine.peak,
                "card_bytes": engine.card,
                "contexts": [
                    {"context": c, **{key: figure.record() for key, figure in figures(results, engine, c).items()}}
                    for c in plan.contexts
                ],
            }
            for name, engine in results.engines.items()
        ],
    }  # fmt: skip


def machine() -> dict[str, Any]:
    """What it was measured on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": models[0] if models else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": memory,
        "cards": list(driver().cards),
        "system": f"{platform.system()} {platform.release()}",
        "load": os.getloadavg()[0],
    }


def versions() -> dict[str, str]:
    """Of what the numbers hang on."""
    found = {name: importlib.metadata.version(name) for name in DISTRIBUTIONS}
    import onnxruntime

    return {"python": platform.python_version(), "onnxruntime": onnxruntime.__version__, **found}


# ------------------------------------------------------------------------------------------------------------ for people


def percent(x: float) -> str:
    """91 %"""
    return f"{100 * x:.0f} %"


def milliseconds(x: float) -> str:
    """121.4 ms"""
    return f"{1e3 * x:,.1f} ms"


def rate(x: float) -> str:
    """82.1, or 1,054"""
    return f"{x:,.1f}" if x < 1000 else f"{x:,.0f}"


def tables(results: Results) -> list[Table]:
    """One table a context, and one of what each engine takes."""
    found = [_speed(results, context) for context in results.plan.contexts]
    return [*found, _engines(results)]


def _speed(results: Results, context: int) -> Table:
    plan, work, limits = results.plan, results.work, results.limits[context]
    reading = "prefill" if results.plan.generates else "forward"
    columns = [
        Column("engine", "engine"),
        Column("first", "first token" if results.plan.generates else "whole text", milliseconds, True),
        Column("first_spread", "±", percent, True),
        Column("reading", f"{reading}/s", rate, True),
        Column("reading_share", "of limit", percent, True),
    ]
    if results.plan.generates:
        columns += [
            Column("decode", "decode/s", rate, True),
            Column("decode_spread", "±", percent, True),
            Column("decode_share", "of limit", percent, True),
        ]
    beside = f", {plan.batch:,} rows" if plan.batch > 1 else ""
    what = (
        "a source of" if results.folder.form == "encoder_decoder" else "after" if results.plan.generates else "texts of"
    )
    table = Table(f"{results.folder.spec.name}, {what} {many(context, 'token')}{beside}", columns)
    for name, engine in results.engines.items():
        found = figures(results, engine, context)
        first, rate_, share = (found[key] for key in list(found)[:3])
        row: list[Cell] = [name, first.median, first.spread, rate_.median, share.median]
        if results.plan.generates:
            decode = found["decode_tokens_per_second"]
            row += [decode.median, decode.spread, found["decode_share_of_limit"].median]
        table.rows.append(row)
    inp, out = work.product()
    size_of = " × ".join(map(str, (plan.rows(context), inp, out)))
    multiply, read = Figure(limits.multiply), Figure(limits.read)
    table.notes.append(
        f"limit of {reading}: {flops(results.prompt_flops(context))} at {flops(multiply.median)}/s "
        f"± {percent(multiply.spread)}, a product of {size_of}"
    )
    if results.plan.generates:
        table.notes.append(
            f"limit of decode: {size(results.step_bytes(context))} a step at {size(read.median)}/s ± {percent(read.spread)} "
            f"({size(Figure(limits.ordinary).median)}/s in ordinary pages)"
        )
    return table


def _engines(results: Results) -> Table:
    columns = [
        Column("engine", "engine"),
        Column("device", "device"),
        Column("numbers", "numbers"),
        Column("load", "load", lambda x: f"{x:,.1f} s", True),
        Column("peak", "peak memory", size, True),
    ]
    if results.device == "cuda":
        columns.append(Column("card", "of the card", size, True))
    table = Table("What each takes", columns)
    stored = results.folder.manifest["precision"]
    for name, engine in results.engines.items():
        numbers = engine.about.get("dtype", stored)
        row: list[Cell] = [name, engine.about["device"], str(numbers), engine.about["load_seconds"], engine.peak]
        table.rows.append([*row, engine.card][: len(columns)])
    here, plan = machine(), results.plan
    where = ", ".join(here["cards"]) if results.device == "cuda" else f"{here['processor']}, {here['cores']} cores"
    unsaid, random = ({"numpy"}, "Weights in PyTorch are random. ") if results.setup.torch else ({"numpy", "torch"}, "")
    table.notes += [
        f"{where}; {many(results.setup.threads, 'thread')}; load {here['load']:.1f}; "
        + ", ".join(f"{name} {version}" for name, version in versions().items() if name not in unsaid),
        f"Medians of {many(plan.rounds, 'round')} in which engines take turns, {many(plan.new, 'step')} each; ±: half of the "
        f"distance between the quartiles. Limits are probed before each turn. {random}Peak memory is that of the whole process.",
    ]
    return table


def tidy(results: Results) -> Table:
    """Every figure in a row: for CSV."""
    table = Table(
        "", [Column(key, key) for key in ("context", "engine", "figure", "median", "first_quartile", "third_quartile")]
    )
    for context, name, _, found in rows(results):
        table.rows += [(context, name, key, figure.median, *figure.quartiles) for key, figure in found.items()]
    return table
