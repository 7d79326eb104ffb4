"""What the scripts share: their options, engines in other programs, ratios within one run, and the page that results go to.

A figure is the median of the rounds; a ratio is taken round by round, the other's time over ours, and stands with its quartiles.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from archspec.exporters.bench import remote
from archspec.exporters.bench.figures import Figure
from archspec.exporters.bench.processes import OWN, Process
from archspec.exporters.bench.report import machine, percent, rate, versions
from archspec.exporters.bench.turns import WARM, Limits, Plan, Taken, take_turns
from archspec.exporters.bench.work import Work
from archspec.exporters.tables import Column, Table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "performance.md"
ENGINES = Path(__file__).parent / "engines"
ARCHSPEC = Path(sys.executable).with_name("archspec")


def options(doc: str | None, rounds: int, starts: int | None = None) -> argparse.ArgumentParser:
    """The options that all scripts have. starts: of scripts that make a `Comparison`."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds, help="turns of each side (default: %(default)s)")
    if starts:
        parser.add_argument("--starts", type=int, default=starts, help="processes of each side (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="default: %(default)s")
    parser.add_argument(
        "--work",
        type=Path,
        default=ROOT / "build" / "bench",
        help="where models are made and kept (default: build/bench)",
    )
    parser.add_argument("--write", action="store_true", help="write the tables into docs/performance.md")
    return parser


def called(*command: str | Path, quiet: bool = True) -> float:
    """Run a program to its end; seconds. What it prints is shown where it fails."""
    start = time.perf_counter()
    done = subprocess.run(
        list(map(str, command)), check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode or not quiet:
        print(done.stdout, file=sys.stderr)
    done.check_returncode()
    return time.perf_counter() - start


def say(what: str, share: float = 0.0) -> None:
    """Where we are, on one line of stderr, if anyone looks."""
    if sys.stderr.isatty():
        print(f"\r\033[K{what} {share:.0%}", end="", file=sys.stderr, flush=True)


# ---------------------------------------------------------------------------------------------------------------- engines


@dataclass(frozen=True)
class Side:
    """One engine to compare. weights: bytes that a step reads of them."""

    name: str
    process: Process
    weights: int


def ours(stack: ExitStack, name: str, folder: Path, threads: int, weights: int) -> Side:
    """An exported folder on archspec's runtime."""
    process = stack.enter_context(Process(name))
    process.call("open", engine="folder", folder=str(folder), device="cpu", threads=threads)
    return Side(name, process, weights)


def theirs(
    stack: ExitStack, name: str, script: str, weights: int, python: str = sys.executable, **given: object
) -> Side:
    """An engine that one of the programs in `engines/` serves, by any Python."""
    where = {**os.environ, "PYTHONPATH": str(Path(remote.__file__).parent)}
    process = stack.enter_context(Process(name, [python, str(ENGINES / script)], where))
    process.call("open", engine="engine", **given)
    return Side(name, process, weights)


def probe(stack: ExitStack, threads: int) -> Process:
    """The machine's limits."""
    process = stack.enter_context(Process("the probe", OWN))
    process.call("open", engine="machine", device="cpu", threads=threads)
    return process


# ------------------------------------------------------------------------------------------------------------ comparisons


@dataclass(frozen=True)
class Comparison:
    """Sides against one of them, `base`; prefill and decode at these contexts.

    starts: processes that each side has, one after another, with the plan's rounds in each. Where the system puts a process's
    weights decides how fast they can be read: on a virtual machine two alike may be 1.7 x apart, for as long as they live.
    """

    plan: Plan
    prefill: tuple[int, ...]
    decode: tuple[int, ...]
    starts: int


Opened = tuple[Sequence[Side], Process]
"""The sides, and the probe."""


def compared(title: str, c: Comparison, opened: Callable[[ExitStack], Opened], base: str, work: Work) -> Table:
    """A row for each side at each context, and its speed over that of `base`. opened: starts the processes."""
    taken = Taken({}, {}, {})
    for number in range(c.starts):
        say(f"start {number + 1} of {c.starts}")
        with ExitStack() as stack:
            sides, machine = opened(stack)
            _join(taken, take_turns(c.plan, {s.name: s.process for s in sides}, machine, work.product(), say))
    columns = [
        Column("what", ""),
        Column("engine", "engine"),
        Column("time", "time", lambda x: f"{1e3 * x:,.2f} ms", True),
        Column("rate", "tokens/s", rate, True),
        Column("share", "of limit", percent, True),
        Column("ordinary", "in ordinary pages", percent, True),
        Column("ratio", f"× {base}", lambda x: f"{x:.2f}", True),
        Column("spread", "quartiles"),
    ]
    table = Table(title, columns)
    for context in c.prefill:
        limit, flops = taken.limits[context].multiply, work.prompt_flops(context, c.plan.batch)
        times = {s.name: Figure(t.first for t in taken.turns[s.name][context]) for s in sides}
        for side, time_ in zip(sides, times.values(), strict=True):
            share = Figure(flops / t for t in time_).over(limit).median
            row = [
                f"prefill of {context:,}",
                side.name,
                time_.median,
                c.plan.batch * context / time_.median,
                share,
                None,
            ]
            table.rows.append([*row, *_ratio(times[base], time_)])
    for context in c.decode:
        limits, cache = taken.limits[context], work.cache_bytes(context + WARM + c.plan.new // 2, c.plan.batch)
        times = {s.name: Figure(t.step or 0 for t in taken.turns[s.name][context]) for s in sides}
        for side, time_ in zip(sides, times.values(), strict=True):
            read = Figure((side.weights + cache) / t for t in time_)
            shares = [read.over(limit).median for limit in (limits.read, limits.ordinary)]
            row = [f"decode after {context:,}", side.name, time_.median, c.plan.batch / time_.median, *shares]
            table.rows.append([*row, *_ratio(times[base], time_)])
    best, ordinary = (
        Figure(x for limits in taken.limits.values() for x in getattr(limits, which)) for which in ("read", "ordinary")
    )
    table.notes.append(
        f"{c.starts} starts of each process, {c.plan.rounds} rounds in each. "
        f"Memory reads {best.median / 1e9:.1f} GB/s ± {percent(best.spread)} at best, "
        f"{ordinary.median / 1e9:.1f} ± {percent(ordinary.spread)} in ordinary pages."
    )
    return table


def _join(taken: Taken, more: Taken) -> None:
    """Add what later processes did."""
    for name, contexts in more.turns.items():
        for context, turns in contexts.items():
            taken.turns.setdefault(name, {}).setdefault(context, []).extend(turns)
    for context, limits in more.limits.items():
        mine = taken.limits.setdefault(context, Limits())
        mine.read += limits.read
        mine.ordinary += limits.ordinary
        mine.multiply += limits.multiply


def _ratio(other: Figure, mine: Figure) -> tuple[float, str]:
    """The other's time over mine, and its quartiles."""
    ratio = other.over(mine)
    low, high = ratio.quartiles
    return ratio.median, f"{low:.2f}–{high:.2f}"


# ------------------------------------------------------------------------------------------------------------- the page


def here(threads: int) -> str:
    """The machine and the versions, in a line."""
    m, v = machine(), versions()
    return (
        f"{m['processor']}, {threads} threads of {m['cores']} cores, load {m['load']:.1f} at the end; "
        f"onnxruntime {v['onnxruntime']}, torch {v['torch']}, python {v['python']}."
    )


def publish(name: str, tables: Sequence[Table], threads: int, *, write: bool) -> None:
    """Print the tables; with `write`, also put them between the page's markers of that name."""
    print("\n\n".join(table.text() for table in tables))
    print(here(threads))
    if not write:
        return
    text, start, end = PAGE.read_text("utf-8"), f"<!-- {name} -->", f"<!-- /{name} -->"
    before, found, rest = text.partition(start)
    _, ended, after = rest.partition(end)
    if not (found and ended):
        raise SystemExit(f"{PAGE} has no markers {start} and {end}")
    body = "\n\n".join(table.markdown() for table in tables)
    PAGE.write_text(f"{before}{start}\n{body}\n\n{here(threads)}\n{end}{after}", "utf-8")
