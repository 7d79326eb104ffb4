"""What the scripts share: their options, engines in other programs, ratios within one run, and the page that results go to.

A figure is the median of the rounds; a ratio is taken round by round, the other's time over ours, and stands with its quartiles.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from archspec.exporters.bench import remote
from archspec.exporters.bench.figures import Figure
from archspec.exporters.bench.processes import OWN, Process
from archspec.exporters.bench.report import machine, percent, rate, versions
from archspec.exporters.bench.turns import WARM, Plan, take_turns
from archspec.exporters.bench.work import Work
from archspec.exporters.tables import Column, Table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "performance.md"
ENGINES = Path(__file__).parent / "engines"
ARCHSPEC = Path(sys.executable).with_name("archspec")


def options(doc: str | None, rounds: int) -> argparse.ArgumentParser:
    """The options that all scripts have."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds, help="turns of each side (default: %(default)s)")
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
    """One engine to compare. weights: bytes that a step reads of them, where they are known."""

    name: str
    process: Process
    weights: int | None = None


def ours(stack: ExitStack, name: str, folder: Path, threads: int, weights: int | None = None) -> Side:
    """An exported folder on archspec's runtime."""
    process = stack.enter_context(Process(name))
    process.call("open", engine="folder", folder=str(folder), device="cpu", threads=threads)
    return Side(name, process, weights)


def theirs(
    stack: ExitStack, name: str, script: str, weights: int | None = None, python: str = sys.executable, **given: object
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
    """Sides against one of them, `base`; prefill and decode at these contexts."""

    plan: Plan
    prefill: tuple[int, ...]
    decode: tuple[int, ...]


def compared(
    title: str, c: Comparison, sides: Sequence[Side], base: str, machine_: Process, work: Work
) -> tuple[Table, Mapping[tuple[str, int, str], Figure]]:
    """The table, and the ratio of each row by (`prefill` or `decode`, context, side)."""
    taken = take_turns(c.plan, {s.name: s.process for s in sides}, machine_, work.product(), say)
    columns = [
        Column("what", ""),
        Column("engine", "engine"),
        Column("time", "time", lambda x: f"{1e3 * x:,.2f} ms", True),
        Column("rate", "tokens/s", rate, True),
        Column("share", "of limit", percent, True),
        Column("ratio", f"× {base}", lambda x: f"{x:.2f}", True),
        Column("spread", "quartiles"),
    ]
    table, ratios = Table(title, columns), {}
    for what, contexts in (("prefill", c.prefill), ("decode", c.decode)):
        for context in contexts:
            limits, turns = taken.limits[context], taken.turns
            times = {
                s.name: Figure(t.first if what == "prefill" else t.step or 0 for t in turns[s.name][context])
                for s in sides
            }
            for side in sides:
                time_ = times[side.name]
                if what == "prefill":
                    flops = work.prompt_flops(context, c.plan.batch)
                    share, tokens = Figure(flops / t for t in time_).over(limits.multiply), context
                else:
                    read = (side.weights or 0) + work.cache_bytes(context + WARM + c.plan.new // 2, c.plan.batch)
                    share, tokens = Figure(read / t for t in time_).over(limits.read), 1
                ratio = times[base].over(time_)
                ratios[what, context, side.name] = ratio
                low, high = ratio.quartiles
                known = share.median if what == "prefill" or side.weights else None
                at = f"{what} {'of' if what == 'prefill' else 'after'} {context:,}"
                table.rows.append(
                    (
                        at,
                        side.name,
                        time_.median,
                        c.plan.batch * tokens / time_.median,
                        known,
                        ratio.median,
                        f"{low:.2f}–{high:.2f}",
                    )
                )
    read = Figure(x for limits in taken.limits.values() for x in limits.read)
    table.notes.append(f"{c.plan.rounds} rounds; memory reads {read.median / 1e9:.1f} GB/s ± {percent(read.spread)}")
    return table, ratios


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
