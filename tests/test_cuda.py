"""What only a card can show: `pytest -m cuda` on a machine that has one. Every tiny model, in what CUDA has kernels for.

The witness is PyTorch in float32 on the CPU, with the weights as they are stored. Rounding may turn a choice of an expert, so what
is bounded is the middle of the positions, and of the tokens how far they are from the likeliest on average.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from exported import by_pytorch, rows
from tiny import DECODERS, ENCODERS, SEQ2SEQ, text

from archspec.cli.bench import command as bench
from archspec.compiler.compile import finish
from archspec.compiler.precision import Precision, precision, storage
from archspec.compiler.resolve import resolve_text
from archspec.compiler.show import show
from archspec.errors import DeviceError
from archspec.exporters.onnx.emit import Target
from archspec.exporters.onnx.export import export
from archspec.exporters.onnx.rounded import rounded
from archspec.exporters.rows import matrix_rows
from archspec.exporters.runtime.device import CPU, CUDA, cuda
from archspec.exporters.runtime.folder import open_folder
from archspec.exporters.runtime.placement import placements
from archspec.exporters.runtime.session import Runtime
from archspec.exporters.torch.module import build

pytestmark = [pytest.mark.cuda, pytest.mark.skipif(not cuda().usable, reason=f"no CUDA: {cuda().why}")]

PROMPTS = [[5, 6, 7, 8, 9], [3], [11, 12, 13]]
SOURCES = [[1, 2, 3], [4, 5, 6, 7, 8, 9, 10], [9]]
NEW = 12

FP32, FP16, BF16 = precision("fp32"), precision("fp16"), precision("bf16")
INT4, INT8 = precision("int4", compute="fp16", block=16), precision("int8", compute="bf16", block=16, symmetric=False)
#: How far from float32 a precision may be, in standard deviations of the logits.
FAR = {"fp32": 1e-3, "fp16": 0.03, "bf16": 0.3}
WAYS: list[tuple[Target, Precision]] = [
    ("onnx", FP32), ("onnx", FP16), ("onnx", BF16), ("ort", FP16), ("ort", BF16), ("ort", INT4), ("ort", INT8)
]  # fmt: skip
#: What computes shapes; all else runs on the card.
SHAPES = {
    "Add", "And", "Cast", "Concat", "Gather", "Less", "LessOrEqual", "Neg", "Reshape", "Shape", "Squeeze", "Sub", "Unsqueeze",
}  # fmt: skip
#: Heads and widths as models have them, for which ONNX Runtime has other kernels than for tiny ones.
LARGER = {
    "flash": "heads: 8, kv_heads: 2, position: rope",
    "window": "heads: 8, kv_heads: 2, position: rope, window: 9",
    "softcap": "heads: 4, position: rope, softcap: 30.0, window: 9",
    "sinks": "heads: 8, kv_heads: 1, position: {kind: rope, pairing: interleaved}, sinks: true, window: 9",
    "wide": "heads: 4, kv_heads: 2, head_dim: 320, position: rope",
}


def larger(attention: str, ffn: str = "{kind: gated, width: 512, activation: silu}") -> str:
    return f"""
archspec: 1
name: larger
vocab_size: 512
context_length: 64
d_model: 512
norm: {{kind: rmsnorm}}
decoder:
  layers: 2
  attention: {{{attention}}}
  ffn: {ffn}
head: {{tied: true}}
"""


MIXTURE = (
    "{kind: moe, experts: 8, top_k: 2, expert: {kind: gated, width: 128, activation: silu}, router: {normalize: true}}"
)


class Made:
    """A model in a folder, and what PyTorch says of it."""

    def __init__(self, spec: str, folder: Path, target: Target, numbers: Precision, *, verify: bool = False) -> None:
        compiled = finish(resolve_text(spec))
        module = build(compiled.model, seed=3)
        generator = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for _, parameter in module.stored():
                if parameter.dim() == 2:  # so large that tokens differ from step to step
                    parameter.copy_(
                        torch.randn(parameter.shape, generator=generator) * parameter.shape[-1] ** -0.5 * 1.7
                    )

        def weights(path: str, start: int = 0, stop: int | None = None) -> Any:
            return matrix_rows(module.tensor(path).detach().numpy(), start, stop)

        self.folder, self.far, self.prefix = folder, FAR[numbers.compute], compiled.spec.name == "prefix"
        self.summary = export(
            compiled.model, weights, show(compiled.spec), folder, context_length=compiled.spec.context_length,
            verify=verify, target=target, precision=numbers, budget=10.0 if verify else None,
        )  # fmt: skip
        coarse = rounded(compiled.model, weights, storage(compiled.model, numbers))
        stored = {t.path: torch.from_numpy(np.float32(coarse(t.path))) for t in compiled.model.tensors()}
        self.module = build(compiled.model, dtype="float32").eval()
        self.module.load_state_dict(stored)

    def holds_whole(self, runtime: Runtime) -> None:
        """Whole texts, padded in a batch."""
        beside = runtime.form == "encoder_decoder"
        got = runtime.forward(PROMPTS, source=SOURCES if beside else None)
        off = []
        for row, prompt, source in zip(got, PROMPTS, SOURCES, strict=True):
            want = by_pytorch(self.module, prompt, source if beside else None, 0 if self.prefix else None)
            there = row[: len(want)] if want.ndim > 1 else row
            off += [np.sqrt(((there - want) ** 2).mean(-1)) / want.std()]
        assert np.median(np.hstack(off)) < self.far

    def holds_tokens(self, runtime: Runtime) -> None:
        """Tokens, step by step: each as likely by PyTorch as the likeliest, or nearly so."""
        beside = runtime.form == "encoder_decoder"
        prompts = [[2]] * 3 if beside else PROMPTS
        made = rows(runtime.generate(prompts, source=SOURCES if beside else None, max_new_tokens=NEW))
        short = []
        for prompt, new, source in zip(prompts, made, SOURCES, strict=True):
            assert len(new) == NEW
            text = [*prompt, *new[:-1]]
            logits = by_pytorch(self.module, text, source if beside else None, len(prompt) if self.prefix else None)[
                len(prompt) - 1 :
            ]
            short += [(logits.max(-1) - logits[range(NEW), new]) / logits.std()]
        assert np.mean(short) < self.far


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "model"


def every(names: Sequence[str], ways: Sequence[tuple[Target, Precision]] = WAYS) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("name", "target", "numbers"),
        [
            pytest.param(name, *way, id=f"{name}-{way[0]}-{way[1].name}-{way[1].compute}")
            for name in names
            for way in ways
        ],
    )


@every([*DECODERS, *SEQ2SEQ, *ENCODERS])
def test_every_tiny_model(name: str, target: Target, numbers: Precision, folder: Path) -> None:
    made = Made(text(name), folder, target, numbers)
    runtime = Runtime.load(folder, "cuda")
    assert runtime.device.device == "cuda"
    made.holds_whole(runtime)
    if runtime.generates:
        made.holds_tokens(runtime)


@every(["llama", "chunk", "mla", "t5", "bert"])
def test_nothing_but_shapes_is_on_the_cpu(name: str, target: Target, numbers: Precision, folder: Path) -> None:
    Made(text(name), folder, target, numbers)
    for place in placements(open_folder(folder), "cuda"):
        assert set(place.nodes) <= {CUDA, CPU}
        assert set(place.nodes.get(CPU, ())) <= SHAPES
        assert place.copies == 0


@pytest.mark.parametrize("numbers", [FP16, BF16, precision("int4", compute="fp16")], ids=str)
@pytest.mark.parametrize("attention", LARGER.values(), ids=LARGER)
def test_heads_as_models_have_them(attention: str, numbers: Precision, folder: Path) -> None:
    made = Made(larger(attention), folder, "ort", numbers)
    for recorded in (False, True):
        made.holds_tokens(Runtime.load(folder, "cuda", cuda_graph=recorded))


@pytest.mark.parametrize(
    "numbers", [FP16, BF16, *(precision(b, compute=c, symmetric=s) for b in ("int4", "int8") for c in ("fp16", "bf16")
                              for s in (True, False))], ids=str,
)  # fmt: skip
def test_mixtures_are_cudas(numbers: Precision, folder: Path) -> None:
    made = Made(larger("heads: 8, kv_heads: 2, position: rope", MIXTURE), folder, "ort", numbers)
    assert any("2 of 2 mixtures" in str(fusion) for fusion in made.summary.fusions)
    for recorded in (False, True):
        made.holds_tokens(Runtime.load(folder, "cuda", cuda_graph=recorded))


@every(["gpt2", "llama", "parallel", "shared", "odd", "sinks", "stretched"], [w for w in WAYS if w[0] == "ort"])
def test_recorded_steps(name: str, target: Target, numbers: Precision, folder: Path) -> None:
    made = Made(text(name), folder, target, numbers)
    runtime = Runtime.load(folder, "cuda", cuda_graph=True)
    for _ in range(2):  # each generation has a recording of its own
        made.holds_tokens(runtime)


@every(["experts"], [("ort", FP16)])
def test_what_cannot_be_recorded_is_refused(name: str, target: Target, numbers: Precision, folder: Path) -> None:
    Made(text(name), folder, target, numbers)
    with pytest.raises(DeviceError, match="cannot be recorded"):
        Runtime.load(folder, "cuda", cuda_graph=True)


@pytest.mark.parametrize("numbers", [FP32, precision("int4", block=16)], ids=str)
def test_cuda_is_never_the_cpu(numbers: Precision, folder: Path) -> None:
    made = Made(text("llama"), folder, "ort", numbers)
    with pytest.raises(DeviceError, match="no kernel for GroupQueryAttention"):
        Runtime.load(folder, "cuda")
    runtime = Runtime.load(folder, "auto")
    assert runtime.device.device == "cpu"
    made.holds_tokens(runtime)


@every(["llama", "moe", "bert", "t5"], [w for w in WAYS if w[1].compute == "bf16"])
def test_bfloat16_is_verified_in_bfloat16(name: str, target: Target, numbers: Precision, folder: Path) -> None:
    checked = Made(text(name), folder, target, numbers, verify=True).summary.verification
    assert checked is not None
    assert checked.remark is None  # which would say that it was compared in float32


@every(["llama"], [("ort", FP16), ("ort", BF16), ("onnx", FP32)])
def test_bench(name: str, target: Target, numbers: Precision, folder: Path, tmp_path: Path) -> None:
    Made(text(name), folder, target, numbers)
    record = tmp_path / "bench.json"
    asked = [str(folder), "--device", "cuda", "--rounds", "2", "--no-compile", "--json", str(record)]
    asked += [] if torch.cuda.is_available() else ["--no-torch"]
    done = CliRunner().invoke(bench, asked, catch_exceptions=False)
    assert done.exit_code == 0
    found = json.loads(record.read_text("utf-8"))
    assert found["settings"]["device"] == "cuda"
    for engine in found["engines"]:
        assert engine["card_bytes"] > 0
        assert engine["contexts"][0]["decode_tokens_per_second"]["median"] > 0
