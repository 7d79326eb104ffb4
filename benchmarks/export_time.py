"""How long an export of GPT-2 small takes, as a whole process: against what it must do at least, and against torch's exporter.

    python benchmarks/export_time.py [--rounds 5] [--threads 2] [--write]

The least is what it takes to import torch and to write 500 MB (to the disk, as an export is when it gets its name). The other
side is `torch.onnx.export(dynamo=True)` of the same module, which does not verify and exports no cache.

Takes some 5 minutes on two quiet cores, 4 GB of memory and 1.5 GB of disk.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from common import ARCHSPEC, called, options, publish, say
from targets import Target, judged

from archspec.exporters.bench.figures import Figure
from archspec.exporters.tables import Column, Table

TARGETS = (
    Target("not verified, × import and write", ("archspec export --no-verify",), "floor", most=2.0),
    Target("the same for `ort`", ("archspec export --no-verify --target ort",), "floor", most=2.0),
    Target("verified, torch's exporter ×", ("archspec export",), "torch", least=5.0),
)
#: The weights of GPT-2 small are 498 MB; the file is synchronised with the disk.
FLOOR = """
import os, sys, torch
block = bytes(1 << 20)
with open(sys.argv[1], "wb") as file:
    for _ in range(500_000_000 >> 20):
        file.write(block)
    file.flush()
    os.fsync(file.fileno())
"""
TORCH = """
import sys, torch, archspec
module = archspec.load(sys.argv[2]).build().eval()
ids = torch.zeros(2, 7, dtype=torch.long)
dims = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
torch.onnx.export(module, (ids,), sys.argv[1], dynamo=True, external_data=True, dynamic_shapes={"ids": dims}, verbose=False)
"""


def main() -> None:
    """The command line."""
    given = options(__doc__, rounds=5).parse_args()
    work: Path = given.work / "export-time"
    work.mkdir(parents=True, exist_ok=True)
    if not (work / "gpt2").is_dir():
        called(ARCHSPEC, "build", "gpt2", "-o", work / "gpt2")
    export = (ARCHSPEC, "export", work / "gpt2", "-o", work / "out", "--force")
    programs: dict[str, tuple[str | Path, ...]] = {
        "import torch, write 500 MB": (sys.executable, "-c", FLOOR, work / "floor"),
        "archspec export --no-verify": (*export, "--no-verify"),
        "archspec export --no-verify --target ort": (*export, "--no-verify", "--target", "ort"),
        "archspec export": export,
        "torch.onnx.export(dynamo=True)": (sys.executable, "-c", TORCH, work / "torch.onnx", work / "gpt2"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for number in range(given.rounds + 1):  # a first one fills the page cache
        for name, command in programs.items():
            say(f"round {number} of {given.rounds}: {name}", number / (given.rounds + 1))
            took = called(*command)
            if number:
                seconds[name].append(took)
    shutil.rmtree(work / "out")
    figures = {name: Figure(found) for name, found in seconds.items()}
    floor, *_, traced = figures.values()
    ratio = Column("floor", "× import and write", lambda x: f"{x:.2f}", True)
    columns = [
        Column("program", "whole process"),
        Column("seconds", "seconds", lambda x: f"{x:.2f}", True),
        Column("spread", "quartiles"),
        ratio,
        Column("torch", "torch's exporter ×", lambda x: f"{x:.2f}", True),
    ]
    table = Table("Export of GPT-2 small", columns)
    for name, figure in figures.items():
        low, high = figure.quartiles
        over, under = figure.over(floor).median, traced.over(figure).median
        table.rows.append((name, figure.median, f"{low:.2f}–{high:.2f}", over, under))
    table.notes.append(f"{given.rounds} rounds in which the programs take turns.")
    publish("export", [table, judged((table, TARGETS))], given.threads, write=given.write)


if __name__ == "__main__":
    main()
