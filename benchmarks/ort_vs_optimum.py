"""archspec's export of GPT-2 small against optimum-onnx's, with the same weights, on the CPU.

    OPTIMUM_PYTHON=/path/to/bin/python python benchmarks/ort_vs_optimum.py [--starts 3] [--rounds 3] [--threads 2] [--write]

optimum-onnx 0.1 wants transformers 4, so it runs in an environment of its own, which this makes:

    python -m venv optimum && optimum/bin/pip install optimum-onnx==0.1.0 onnxruntime==1.31.0 "transformers<5"

optimum's graph is measured in three ways: by its own `ORTModelForCausalLM`, with I/O binding and without, and alone on ONNX
Runtime with its caches bound. What is wanted of archspec is over the best of them (`TARGETS`).

Takes some 4 minutes on two quiet cores, the first time one more, and 5 GB of memory.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from common import ARCHSPEC, Comparison, Opened, called, compared, options, ours, probe, publish, theirs
from targets import Target, judged

from archspec.exporters.bench.turns import Plan
from archspec.exporters.bench.work import Work
from archspec.exporters.runtime.folder import open_folder

PREFILL, DECODE = (128, 512), (128, 512, 1000)
VOCAB = 50257
OPTIMUM = ("optimum", "optimum, I/O binding", "optimum's graph alone")
#: Over the best of optimum's.
TARGETS = tuple(
    Target(f"{what}, × the best of optimum", (what, "archspec"), "ratio", least, over=tuple((what, o) for o in OPTIMUM))
    for what, least in (
        *((f"prefill of {n}", 1.1) for n in PREFILL),
        *((f"decode after {n:,}", 1.3) for n in DECODE),
    )
)
EXPORT = """
import sys
from optimum.onnxruntime import ORTModelForCausalLM
ORTModelForCausalLM.from_pretrained(sys.argv[1], export=True, use_cache=True).save_pretrained(sys.argv[2])
"""


def made(work: Path, python: str) -> None:
    """The checkpoint and what both sides make of it."""
    hf, theirs_, ours_ = work / "gpt2-hf", work / "gpt2-optimum", work / "gpt2"
    if not hf.is_dir():
        from torch import manual_seed
        from transformers import GPT2Config, GPT2LMHeadModel

        manual_seed(0)
        GPT2LMHeadModel(GPT2Config()).save_pretrained(hf)
    if not theirs_.is_dir():
        called(python, "-c", EXPORT, hf, theirs_)
    if not ours_.is_dir():
        called(ARCHSPEC, "import", hf, "-o", work / "gpt2.yaml", "--force")
        called(ARCHSPEC, "build", work / "gpt2.yaml", "--weights", hf, "-o", ours_)
    called(ARCHSPEC, "export", ours_, "-o", work / "gpt2-ort", "--target", "ort", "--no-verify", "--force")


def main() -> None:
    """The command line."""
    parser = options(__doc__, rounds=3, starts=3)
    parser.add_argument(
        "--python", default=os.environ.get("OPTIMUM_PYTHON"), help="that has optimum-onnx; or OPTIMUM_PYTHON"
    )
    given = parser.parse_args()
    if not given.python:
        parser.error("say which Python has optimum-onnx: --python, or OPTIMUM_PYTHON (above: how to make one)")
    made(given.work, given.python)
    plan = Plan((128, 512, 1000), batch=1, new=16, rounds=given.rounds)
    folder, checkpoint = given.work / "gpt2-ort", str(given.work / "gpt2-optimum")
    work = Work(open_folder(folder))
    weights, threads = work.weight_bytes(1), given.threads
    model = {"python": given.python, "folder": checkpoint, "threads": threads, "vocab": VOCAB}
    graph = {"file": f"{checkpoint}/model.onnx", "threads": threads, "vocab": VOCAB, "heads": 12, "width": 64}

    def opened(stack: ExitStack) -> Opened:
        sides = [
            theirs(stack, OPTIMUM[0], "run_optimum.py", weights, bound=False, **model),
            theirs(stack, OPTIMUM[1], "run_optimum.py", weights, bound=True, **model),
            theirs(stack, OPTIMUM[2], "run_graph.py", weights, **graph),
            ours(stack, "archspec", folder, threads, weights),
        ]
        return sides, probe(stack, threads)

    table = compared("GPT-2 small, fp32", Comparison(plan, PREFILL, DECODE, given.starts), opened, OPTIMUM[0], work)
    publish("optimum", [table, judged((table, TARGETS))], threads, write=given.write)


if __name__ == "__main__":
    main()
