"""`archspec bench` on some models, as one table: ONNX Runtime beside PyTorch, eager and compiled, and the machine's limits.

    python benchmarks/bench.py [--rounds 5] [--threads 2] [--device cpu|cuda] [--models llama,gpt2] [--write]

On a CUDA machine (`--device cuda`) the table goes to a place of its own on the page, with the card's name. Takes some 12 minutes
on two quiet cores, of which compiling is the most, 4 GB of memory and 2 GB of disk.
"""

from __future__ import annotations

from pathlib import Path

from common import ARCHSPEC, called, options, publish, say
from emission import SPEC

from archspec.exporters.bench.measure import Results, Setup, measure, settle
from archspec.exporters.bench.report import machine, milliseconds, percent, rate, rows
from archspec.exporters.runtime.folder import open_folder
from archspec.exporters.tables import Cell, Column, Table
from archspec.exporters.units import size

#: Name on the page -> spec, the flags of the export, and whether PyTorch runs beside it.
MODELS: dict[str, tuple[str, tuple[str, ...], bool]] = {
    "llama": ("llama", (), True),
    "llama int4": ("llama", ("--precision", "int4"), False),
    "gpt2": ("gpt2", (), True),
    "bert-base": ("bert-base", (), True),
}


def exported(name: str, work: Path, extra: tuple[str, ...]) -> Path:
    """The model with random weights, exported for ONNX Runtime."""
    spec, flags, _ = MODELS[name]
    source: str | Path = spec
    if spec == "llama":  # 100 M parameters: the one of the other tables
        source = work / "llama-100m.yaml"
        source.write_text(SPEC, "utf-8")
    out = work / f"bench-{name.replace(' ', '-')}"
    called(ARCHSPEC, "export", source, "-o", out, "--target", "ort", "--no-verify", "--force", *flags, *extra)
    return out


def added(table: Table, name: str, results: Results) -> None:
    """A row for each engine at each context."""
    for context, engine, measured, found in rows(results):
        first, *rates = found.values()
        reading, reading_share, *decode = rates
        row: list[Cell] = [name, context, engine, first.median, reading.median, reading_share.median]
        row += [decode[0].median, decode[0].spread, decode[1].median] if decode else [None] * 3
        table.rows.append([*row, measured.card or measured.peak])


def main() -> None:
    """The command line."""
    parser = options(__doc__, rounds=5)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--models", default=",".join(MODELS), help="default: %(default)s")
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    cuda = given.device == "cuda"
    columns = [
        Column("model", "model"),
        Column("context", "tokens", "{:,}".format, True),
        Column("engine", "engine"),
        Column("first", "first token", milliseconds, True),
        Column("prefill", "read/s", rate, True),
        Column("prefill_share", "of limit", percent, True),
        Column("decode", "decode/s", rate, True),
        Column("spread", "±", percent, True),
        Column("decode_share", "of limit", percent, True),
        Column("memory", "memory", size, True),
    ]
    table = Table(", ".join(machine()["cards"]) if cuda else "On the CPU", columns)
    for name in given.models.split(","):
        half = ("--compute", "fp16") if MODELS[name][1] else ("--precision", "fp16")
        folder = open_folder(exported(name, given.work, half if cuda else ()))
        beside = MODELS[name][2]
        setup = Setup(given.device, given.threads, beside, beside and not given.no_compile)
        added(table, name, measure(folder, settle(folder, None, 1, None, given.rounds), setup, say))
    what = "the card" if cuda else "the process"
    table.notes.append(
        f"{given.rounds} rounds; ±: half of the distance between the quartiles of decode; memory: of {what}."
    )
    publish("cuda" if cuda else "bench", [table], given.threads, write=given.write)


if __name__ == "__main__":
    main()
