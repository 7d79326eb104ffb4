"""Thousands of generations, one after another: no wrong token, no growth in memory.

    python benchmarks/soak.py [--generations 2000] [--threads 2] [--write]

Batches of 1 to 4 prompts of random lengths, in part with stop tokens, in part cancelled on the way, in part two at a time on one
runtime. Every token is held against PyTorch in float32, given the same text before it: it must be the likeliest, or as likely to
within a thousandth of the spread of the logits (a tie).

Memory is that of the process that generates, which has no PyTorch in it, after each generation and in two measures. Resident: its
pages in memory, as the system counts them. Held: the bytes that it has allocated and not given back, as glibc counts them, Python's
objects and ONNX Runtime's arena included. A leak of any size grows there with the number of generations; numpy's store of small
blocks, a few of each size, fills in the first thousand. What is resident also grows where nothing is kept: by gaps between blocks,
and by pages of the arena that are used for the first time.

A decoder goes through all of them with ONNX Runtime's fused operators, which keep caches in place; the same one with standard
operators and an encoder-decoder through a quarter. Takes some 10 minutes. The engine is this file, run as a program of its own.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from archspec.errors import ArchspecError
from archspec.exporters.bench.processes import Process
from archspec.exporters.bench.remote import serve
from archspec.exporters.runtime.session import Runtime

if TYPE_CHECKING:
    from archspec.exporters.torch.module import Transformer

#: The token that an answer beside an encoder begins with.
START = 1
#: Generations after which memory must not grow any more, and how many are compared at either end.
SETTLED, WINDOW = 100, 100
#: So that glibc counts every block: Python asks it for each object, and it keeps no blocks of its own that count as held.
EXACT = {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
#: Of the spread of the logits: nearer than this, two tokens are as likely as each other.
TIE = 1e-3

SPECS = {
    "a decoder with windows": """
archspec: 1
name: decoder
vocab_size: 512
context_length: 128
d_model: 128
norm: {kind: rmsnorm}
decoder:
  attention: {heads: 8, kv_heads: 4, position: rope}
  ffn: {kind: gated, width: 256, activation: silu}
  layers:
    - {repeat: 2, attention: {window: 32}}
    - {repeat: 2}
head: {tied: true}
""",
    "an encoder-decoder": """
archspec: 1
name: beside
vocab_size: 512
context_length: 128
d_model: 128
norm: {kind: rmsnorm}
block:
  attention: {heads: 8, position: {kind: relative_buckets, buckets: 16, max_distance: 64}}
  ffn: {kind: mlp, width: 256, activation: relu}
encoder: {layers: 2}
decoder: {layers: 2}
head: {tied: true}
""",
}


# ------------------------------------------------------------------------------------------------------------- the engine


class Generations:
    """Random ones, each by its number: the same number is the same generation, on whichever engine."""

    def __init__(self, folder: str, threads: int) -> None:
        self._runtime = Runtime.load(folder, "cpu", threads)
        self._spec = self._runtime.spec

    def run(self, number: int) -> dict[str, Any]:
        """Generation `number`: what was asked, what came, and the bytes of memory after it. 0 is the largest there is."""
        r = np.random.default_rng(number)
        asked = [self._asked(r, largest=number == 0) for _ in range(1 + int(number == 0 or r.random() < 0.2))]
        running = [(one, self._begun(one), [[] for _ in one["prompts"]]) for one in asked]
        left = [one["steps"] for one in asked]
        while any(left):  # in turns, where there are two
            for i, (_, steps, made) in enumerate(running):
                if left[i]:
                    step = next(steps, None)
                    left[i] = left[i] - 1 if step else 0
                    for row, token in zip(made, step.tokens if step else (), strict=False):
                        row.extend([] if token is None else [token])
        results = [{**one, "made": made} for one, _, made in running]
        del running  # what was cancelled is let go of
        return {"results": results, "resident": resident(), "held": held()}

    def _asked(self, r: np.random.Generator, *, largest: bool) -> dict[str, Any]:
        """prompts and source; new: tokens at most; steps: how many are waited for; stop: tokens that end a row."""
        vocab, half = self._spec.vocab_size, (self._spec.context_length or 0) // 2
        batch = 4 if largest else int(r.integers(1, 5))
        rows = [
            r.integers(vocab, size=half if largest else int(r.integers(1, half + 1))).tolist() for _ in range(batch)
        ]
        new = half if largest else int(r.integers(1, half + 1))
        beside = self._runtime.form == "encoder_decoder"
        return {
            "prompts": [[START]] * batch if beside else rows,
            "source": rows if beside else None,
            "new": new,
            "steps": new if largest or r.random() < 0.7 else int(r.integers(new + 1)),
            "stop": r.integers(vocab, size=vocab // 50).tolist() if not largest and r.random() < 0.3 else [],
        }

    def _begun(self, one: dict[str, Any]) -> Iterator[Any]:
        return self._runtime.generate(one["prompts"], source=one["source"], max_new_tokens=one["new"], stop=one["stop"])


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def held() -> int:
    """Bytes that this process has allocated and not freed, without what Python keeps for objects and names to come."""
    gc.collect()
    sys._clear_type_cache()
    counts = _mallinfo()()
    return int(counts.uordblks + counts.hblkhd)  # in the heaps, and in mappings of their own


@cache
def _mallinfo() -> Any:
    class Counts(ctypes.Structure):
        names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
        _fields_ = tuple((name, ctypes.c_size_t) for name in names.split())

    function = ctypes.CDLL(None).mallinfo2
    function.restype = Counts
    return function


# -------------------------------------------------------------------------------------------------------------- the judge


@dataclass
class Verdict:
    """tokens: that were judged. ties: others than the likeliest, and as likely. wrong: what is not as it should be. resident and
    held: bytes after each generation."""

    generations: int = 0
    tokens: int = 0
    ties: int = 0
    cancelled: int = 0
    wrong: list[str] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)


def growth(memory: list[int]) -> float:
    """Bytes from the first generations after the settled ones to the last."""
    settled = memory[SETTLED:]
    return float(np.median(settled[-WINDOW:]) - np.median(settled[:WINDOW])) if len(settled) > WINDOW else 0.0


def soak(folder: Path, module: Transformer, generations: int, threads: int = 1) -> Verdict:
    """Run them in a process of its own, and judge each by the module."""
    verdict = Verdict(generations)
    with ExitStack() as stack:
        command = [sys.executable, "-P", __file__, "--engine"]
        engine = stack.enter_context(Process("the soak", command, {**os.environ, **EXACT}))
        engine.call("open", engine="generations", folder=str(folder), threads=threads)
        for number in range(generations):
            found = engine.call("run", number=number)
            verdict.resident.append(found["resident"])
            verdict.held.append(found["held"])
            for one in found["results"]:
                judge(one, module, verdict, number)
    return verdict


def judge(one: dict[str, Any], module: Transformer, verdict: Verdict, number: int) -> None:
    """Each token of each row, by a full forward over what stands before it; and where each row ends."""
    import torch

    verdict.cancelled += one["steps"] < one["new"]
    for row, (prompt, made) in enumerate(zip(one["prompts"], one["made"], strict=True)):
        stopped = bool(made) and made[-1] in one["stop"]
        if len(made) != one["steps"] and not stopped:
            verdict.wrong.append(f"generation {number}, row {row}: {len(made)} tokens of {one['steps']}")
        if any(token in one["stop"] for token in made[:-1]):
            verdict.wrong.append(f"generation {number}, row {row}: it went on after a stop token")
        if not made:
            continue
        source = {"source": torch.tensor([one["source"][row]])} if one["source"] else {}
        with torch.no_grad():
            logits = module(torch.tensor([prompt + made[:-1]]), **source)[0, len(prompt) - 1 :]
        chosen = logits.gather(1, torch.tensor(made)[:, None])[:, 0]
        short = (logits.max(1).values - chosen) / logits.std(1)
        verdict.tokens += len(made)
        verdict.ties += int(((short > 0) & (short <= TIE)).sum())
        for at in torch.nonzero(short > TIE)[:, 0].tolist():
            verdict.wrong.append(f"generation {number}, row {row}, token {at}: {made[at]} is {short[at]:.2g} short")


def built(spec: str, folder: Path, target: Any) -> Transformer:
    """A model whose tokens differ from step to step, exported to the folder."""
    import torch

    from archspec import load

    file = folder.with_suffix(".yaml")
    file.write_text(spec, "utf-8")
    arch = load(file)
    module = arch.build().eval()
    with torch.no_grad():
        for _, parameter in module.stored():
            if parameter.dim() == 2:
                parameter.normal_(std=0.3, generator=torch.Generator().manual_seed(parameter.numel()))
    arch.export(folder, module=module, target=target)
    return module


def kib(count: float) -> str:
    return f"{count / 1024:,.0f} KiB"


def main(arguments: Sequence[str]) -> None:
    """The command line."""
    if arguments == ["--engine"]:
        serve({"generations": Generations}, (ArchspecError,))
        return
    from common import options, publish

    from archspec.exporters.tables import Column, Table
    from archspec.exporters.units import exact, size

    parser = options(__doc__, rounds=1)
    parser.add_argument("--generations", type=int, default=2000)
    given = parser.parse_args(arguments)
    columns = [Column("model", "model"), Column("target", "target")]
    columns += [Column(k, k, exact, True) for k in ("generations", "cancelled", "tokens", "ties", "wrong")]
    columns += [
        Column("resident", "memory", size, True),
        Column("growth", "growth", kib, True),
        Column("held", "growth of what is held", kib, True),
    ]
    table = Table("A soak against PyTorch in float32", columns)
    decoder, beside = SPECS
    for name, target, share in ((decoder, "ort", 1), (decoder, "onnx", 4), (beside, "ort", 4)):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "model"
            v = soak(folder, built(SPECS[name], folder, target), given.generations // share, given.threads)
        for fault in v.wrong[:10]:
            print(fault, file=sys.stderr)
        counts = v.generations, v.cancelled, v.tokens, v.ties, len(v.wrong)
        table.rows.append((name, target, *counts, max(v.resident), growth(v.resident), growth(v.held)))
    table.notes.append(
        f"Memory: the most that was resident. Growth: of that, from the median of generations {SETTLED} to {SETTLED + WINDOW} "
        f"to that of the last {WINDOW}; held is what is allocated and not given back."
    )
    publish("soak", [table], given.threads, write=given.write)


if __name__ == "__main__":
    main(sys.argv[1:])
