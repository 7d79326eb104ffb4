"""How long an export of 8 billion fresh weights takes, as a whole process, beside a plain write of as many bytes to the same disk.

    python benchmarks/big_export.py [--rounds 3] [--model llama-3.1-8b] [--graph llama-3.1-70b] [--write]

Weights are drawn, rounded or put in blocks, turned, hashed and written as they come. They may take a quarter of their size and a
GiB of memory.

Takes some 5 minutes on two quiet cores and 17 GB of disk.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from common import ARCHSPEC, options, publish, say
from targets import Target, judged

from archspec.exporters.bench.figures import Figure
from archspec.exporters.tables import Column, Table

GIB = 1 << 30
#: From a buffer that a core holds, to the disk, as an export is when it gets its name.
RAW = """
import os, sys
block, left = bytes(1 << 20), int(sys.argv[2])
with open(sys.argv[1], "wb") as file:
    while left > 0:
        left -= file.write(block[:left])
    file.flush()
    os.fsync(file.fileno())
"""


@dataclass
class Program:
    """An export, and what its rounds gave. size: bytes of its weights file, 0 for none. raw: seconds of the plain write."""

    name: str
    command: tuple[str | Path, ...]
    seconds: list[float] = field(default_factory=list)
    raw: list[float] = field(default_factory=list)
    peak: int = 0
    size: int = 0


def measured(*command: str | Path) -> tuple[float, int]:
    """Run a program to its end: seconds, and the most bytes it held in memory. What it prints is shown where it fails."""
    start = time.perf_counter()
    process = subprocess.Popen([*map(str, command)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(map(str, command))}\n{said}")
    return time.perf_counter() - start, used.ru_maxrss << 10


def take_turn(program: Program, work: Path) -> None:
    """One export, and one plain write of what it wrote; both are deleted."""
    out = work / "out"
    seconds, peak = measured(ARCHSPEC, "export", *program.command, "-o", out)
    program.seconds.append(seconds)
    program.peak = max(program.peak, peak)
    data = out / "model.onnx.data"
    program.size = data.stat().st_size if data.exists() else 0
    shutil.rmtree(out)
    if program.size:
        program.raw.append(measured(sys.executable, "-c", RAW, work / "raw", str(program.size))[0])
        (work / "raw").unlink()


def targets(model: str, graph: str) -> tuple[Target, ...]:
    """What is wanted."""
    return (
        Target("fp16, × the write", (f"{model}, fp16",), "ratio", most=1.0),
        Target("int4, × the write", (f"{model}, int4",), "ratio", most=1.0),
        Target("fp16, GiB of memory", (f"{model}, fp16",), "peak", most="limit"),
        Target("int4, GiB of memory", (f"{model}, int4",), "peak", most="limit"),
        Target("graphs without weights, seconds", (f"{graph}, no weights",), "seconds", most=2.0),
    )


def row(program: Program) -> tuple[object, ...]:
    """A line of the table."""
    seconds = Figure(program.seconds)
    low, high = seconds.quartiles
    head = (program.name, program.size / 1e9 or None, seconds.median, f"{low:.2f}–{high:.2f}")
    if not program.size:
        return (*head, None, None, program.peak / GIB, None)
    raw = Figure(program.raw)
    return (*head, raw.median, seconds.over(raw).median, program.peak / GIB, program.size / 4 / GIB + 1)


def main() -> None:
    """The command line."""
    parser = options(__doc__, rounds=3)
    parser.add_argument("--model", default="llama-3.1-8b", help="written with fresh weights (default: %(default)s)")
    parser.add_argument("--graph", default="llama-3.1-70b", help="written without (default: %(default)s)")
    given = parser.parse_args()
    work: Path = given.work / "big-export"
    work.mkdir(parents=True, exist_ok=True)
    programs = [
        Program(
            f"{given.model}, {precision}", (given.model, "--target", "ort", "--no-verify", "--precision", precision)
        )
        for precision in ("fp16", "int4")
    ]
    programs.append(Program(f"{given.graph}, no weights", (given.graph, "--target", "ort", "--no-weights")))
    for number in range(given.rounds):
        for program in programs:
            say(f"round {number + 1} of {given.rounds}: {program.name}", number / given.rounds)
            take_turn(program, work)
    columns = [
        Column("program", "export, whole process"),
        Column("size", "GB", lambda x: f"{x:.2f}", True),
        Column("seconds", "seconds", lambda x: f"{x:.2f}", True),
        Column("spread", "quartiles"),
        Column("raw", "plain write", lambda x: f"{x:.2f}", True),
        Column("ratio", "× the write", lambda x: f"{x:.2f}", True),
        Column("peak", "GiB of memory", lambda x: f"{x:.2f}", True),
        Column("limit", "at most", lambda x: f"{x:.2f}", True),
    ]
    table = Table("Export of large models", columns)
    table.rows += [row(program) for program in programs]
    table.notes.append(f"{given.rounds} rounds in which exports and plain writes take turns.")
    publish("big", [table, judged((table, targets(given.model, given.graph)))], given.threads, write=given.write)


if __name__ == "__main__":
    main()
