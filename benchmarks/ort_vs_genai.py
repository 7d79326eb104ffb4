"""archspec's export and runtime against onnxruntime-genai's builder and runtime, with the same weights, on the CPU.

    python benchmarks/ort_vs_genai.py [--starts 3] [--rounds 3] [--threads 2] [--write]

A Llama of 100 M parameters (12 × 768, 12/4 heads, ffn 2048, vocabulary 32,000, tied), random weights. Each side generates through
its own runtime; beside them the graphs alone on ONNX Runtime, which tells how much of a difference is the graph's. What is wanted
of it is below (`TARGETS`), and beside what was found in a table of its own.

Takes some 6 minutes on two quiet cores, the first time one more, and 6 GB of memory. Needs onnxruntime-genai 0.18, which wants
another onnxruntime than ours and runs with it all the same: pip install --no-deps onnxruntime-genai==0.18.0
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import onnx_ir as ir
from common import ARCHSPEC, Comparison, Opened, Side, called, compared, options, ours, probe, publish, theirs
from targets import Target, judged

from archspec.exporters.bench.turns import Plan
from archspec.exporters.bench.work import Work
from archspec.exporters.runtime.folder import open_folder

PREFILL, DECODE = (128, 512), (128, 1024)
PLAN = Plan((128, 512, 1024), batch=1, new=16, rounds=0)
VOCAB, CONTEXT = 32000, 2048
SHAPE = {"vocab": VOCAB, "heads": 4, "width": 64}
GENAI = "genai"
#: Inputs of an operator that are tables, of which a call reads some rows: where the first one stands, and the last.
LOOKED_UP = {"Gather": (0, 0), "GatherBlockQuantized": (0, 3), "GroupQueryAttention": (7, 8), "RotaryEmbedding": (1, 3)}
#: Precision -> name -> flags of archspec's exports.
EXPORTS = {
    "fp32": {"archspec": ()},
    "int4": {"archspec": ("--precision", "int4"), "archspec, blocks of 128": ("--precision", "int4", "--block", "128")},
}

#: Precision -> what is wanted.
TARGETS = {
    "fp32": (
        Target("fp32, decode after 128, × genai", ("decode after 128", "archspec"), "ratio", least=1.0),
        Target("fp32, decode after 1,024, × genai", ("decode after 1,024", "archspec"), "ratio", least=1.0),
        Target("fp32, decode after 128, of the limit", ("decode after 128", "archspec"), "share", least=0.9),
        Target("fp32, decode after 1,024, of the limit", ("decode after 1,024", "archspec"), "share", least=0.85),
    ),
    "int4": (
        Target("int4, decode after 1,024, × genai", ("decode after 1,024", "archspec"), "ratio", least=1.0),
        Target(
            "int4, decode after 1,024, × genai without its shared buffer", ("decode after 1,024", "archspec"), "ratio",
            least=1.3, over=(("decode after 1,024", "genai, no shared buffer"),),
        ),
        Target("int4, decode after 1,024, of the limit", ("decode after 1,024", "archspec"), "share", least=0.65),
    ),
}  # fmt: skip


def made(work: Path) -> Path:
    """The checkpoint, what genai's builder makes of it, and archspec's exports."""
    hf = work / "llama-hf"
    if not hf.is_dir():
        from tokenizers import Tokenizer, models
        from torch import manual_seed
        from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

        manual_seed(0)
        config = LlamaConfig(
            vocab_size=VOCAB, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=4,
            intermediate_size=2048, tie_word_embeddings=True, max_position_embeddings=CONTEXT,
        )  # fmt: skip
        LlamaForCausalLM(config).save_pretrained(hf)
        words = Tokenizer(models.WordLevel({f"t{i}": i for i in range(VOCAB)}, unk_token="t0"))  # genai asks for one
        PreTrainedTokenizerFast(tokenizer_object=words, unk_token="t0", bos_token="t1", eos_token="t2").save_pretrained(
            hf
        )
    for precision in ("fp32", "int4"):
        if not (out := work / f"genai-{precision}").is_dir():
            builder = [sys.executable, "-m", "onnxruntime_genai.models.builder"]
            called(*builder, "-i", hf, "-o", out, "-p", precision, "-e", "cpu", "-c", work / "cache")
    if not (work / "llama").is_dir():
        called(ARCHSPEC, "import", hf, "-o", work / "llama.yaml", "--force")
        called(ARCHSPEC, "build", work / "llama.yaml", "--weights", hf, "-o", work / "llama")
    return work / "llama"


def exported(model: Path, name: str, *flags: str) -> Path:
    """A folder that is exported anew in each run: it is what is measured."""
    out = model.with_name(name)
    called(ARCHSPEC, "export", model, "-o", out, "--target", "ort", "--no-verify", "--force", *flags)
    return out


def opened(stack: ExitStack, precision: str, folders: Mapping[str, Path], work: Path, threads: int) -> Opened:
    """genai with its shared buffer and without, and its graph alone; each of archspec's exports, and its graph alone."""
    folder = work / f"genai-{precision}"
    weights = weights_read(ir.load(folder / "model.onnx").graph)
    sides = [
        theirs(stack, name, "run_genai.py", weights, folder=str(folder), threads=threads, shared=flag)
        for name, flag in ((GENAI, True), ("genai, no shared buffer", False))
    ]
    sides.append(alone(stack, "genai's graph alone", folder, threads, weights))
    for name, folder in folders.items():
        weights = Work(open_folder(folder)).weight_bytes(1)
        sides.append(ours(stack, name, folder, threads, weights))
        sides.append(alone(stack, f"{name}: its graph alone", folder, threads, weights))
    return sides, probe(stack, threads)


def weights_read(graph: ir.Graph) -> int:
    """Bytes of stored weights that nodes read, tables that are looked into left out."""
    read = 0
    for node in graph:
        first, last = LOOKED_UP.get(node.op_type, (0, -1))
        for i, value in enumerate(node.inputs):
            stored = value.const_value if value else None
            if isinstance(stored, ir.ExternalTensor) and not first <= i <= last:
                read += -(-math.prod(map(int, stored.shape)) * stored.dtype.bitwidth // 8)
    return read


def alone(stack: ExitStack, name: str, folder: Path, threads: int, weights: int) -> Side:
    """A graph on ONNX Runtime with nothing around it."""
    file = str(folder / "model.onnx")
    return theirs(stack, name, "run_graph.py", weights, file=file, threads=threads, room=CONTEXT, **SHAPE)


def main() -> None:
    """The command line."""
    given = options(__doc__, rounds=3, starts=3).parse_args()
    model, threads = made(given.work), given.threads
    plan = Plan(PLAN.contexts, PLAN.batch, PLAN.new, given.rounds)
    comparison, tables = Comparison(plan, PREFILL, DECODE, given.starts), []
    for precision, exports in EXPORTS.items():
        folders = {
            name: exported(model, f"llama-{precision}-{i}", *flags) for i, (name, flags) in enumerate(exports.items())
        }
        start = partial(opened, precision=precision, folders=folders, work=given.work, threads=threads)
        work = Work(open_folder(folders["archspec"]))
        tables.append(compared(f"Llama 100 M, {precision}", comparison, start, GENAI, work))
    wanted = judged(*zip(tables, TARGETS.values(), strict=True))
    publish("genai", [*tables, wanted], threads, write=given.write)


if __name__ == "__main__":
    main()
