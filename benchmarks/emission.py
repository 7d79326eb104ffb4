"""How the time to emit a graph grows with the depth of the model, weights aside.

    python benchmarks/emission.py [--rounds 15] [--write]

Eight times the layers may cost 9 × the time, for either target: a graph is emitted by one walk over the model, and a pass looks at
each place once. No weight is read. Takes some 20 seconds.
"""

from __future__ import annotations

import gc
import time
from typing import get_args

import numpy as np
from common import options, publish
from targets import Target as Wanted
from targets import judged

from archspec.compiler.lower import lower
from archspec.compiler.resolve import resolve_text
from archspec.exporters.bench.figures import Figure
from archspec.exporters.onnx.emit import Target, emit
from archspec.exporters.tables import Column, Table
from archspec.ops.model import Model

DEPTHS = (12, 24, 48, 96)
TARGETS = tuple(Wanted(f"`{t}`, 8 times the layers, time ×", (t,), "ratio", most=9.0) for t in get_args(Target))
SPEC = """
archspec: 1
name: llama
vocab_size: 32000
context_length: 2048
d_model: 768
norm: {kind: rmsnorm}
decoder:
  layers: 12
  attention: {heads: 12, kv_heads: 4, position: rope}
  ffn: {kind: gated, width: 2048, activation: silu}
head: {tied: true}
"""


def weights(path: str, start: int = 0, stop: int | None = None) -> np.ndarray:
    """Nobody asks for one."""
    raise AssertionError(f"{path} was read")


def seconds(model: Model, target: Target) -> float:
    """The graph with a cache, from the operations to what is ready to be written."""
    gc.collect()
    start = time.perf_counter()
    emit(model, "cached", weights, last_only=True, target=target, context=2048)
    return time.perf_counter() - start


def main() -> None:
    """The command line."""
    given = options(__doc__, rounds=15).parse_args()
    models = {n: lower(resolve_text(SPEC, overrides=(f"decoder.layers={n}",)).spec) for n in DEPTHS}
    columns = [Column("target", "target")]
    columns += [Column(f"{n}", f"{n} layers", lambda x: f"{1e3 * x:.1f} ms", True) for n in DEPTHS]
    columns += [
        Column("ratio", f"{DEPTHS[-1]} over {DEPTHS[0]}", lambda x: f"{x:.2f}", True),
        Column("spread", "quartiles"),
    ]
    table = Table("Emission of a Llama's graph", columns)
    for target in get_args(Target):
        turns = [[seconds(model, target) for model in models.values()] for _ in range(given.rounds + 1)][1:]
        figures = [Figure(found) for found in zip(*turns, strict=True)]
        ratio = figures[-1].over(figures[0])
        low, high = ratio.quartiles
        table.rows.append((target, *(f.median for f in figures), ratio.median, f"{low:.2f}–{high:.2f}"))
    table.notes.append(f"{given.rounds} rounds in which the depths take turns.")
    publish("emission", [table, judged((table, TARGETS))], given.threads, write=given.write)


if __name__ == "__main__":
    main()
