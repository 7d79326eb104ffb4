"""PyTorch in another process: it answers what it would answer here, and ends with whoever asked."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoints import checkpoint
from onnx_cases import exported, random_module, stored
from safetensors.torch import save_file
from test_layout import COMMAND, HEAVY, loaded
from tiny import text, tiny

from archspec.errors import UsageError, VerificationError, WeightsError
from archspec.exporters.onnx.answers import answers
from archspec.exporters.onnx.apart import Apart, apart
from archspec.exporters.onnx.export import export
from archspec.exporters.onnx.questions import questions
from archspec.exporters.onnx.verify import verify
from archspec.exporters.weights.fit import fitted
from archspec.exporters.weights.source import open_weights
from archspec.exporters.weights.stream import Fitted
from archspec.ops.model import Model


@pytest.fixture
def process() -> Iterator[Apart]:
    process = Apart()
    yield process
    process.close()


def read(model: Model, tensors: dict[str, torch.Tensor], folder: Path) -> Fitted:
    save_file({name: t.contiguous() for name, t in tensors.items()}, folder / "model.safetensors")
    source = open_weights(folder / "model.safetensors")
    return Fitted(source, fitted(model, source))


def test_another_process_answers_as_this_one_and_finds_what_is_wrong(process: Apart, tmp_path: Path) -> None:
    """By one checkpoint's weights. Rotations are looked up in tables by their records, whose hashes are of a process."""
    e = exported("llama")
    asked = questions(e.model)
    process.ask(e.model, read(e.model, dict(e.module.stored()), tmp_path), asked)
    theirs, ours = process.answers(), answers(e.module, asked)
    for (whole, pieces), (our_whole, _) in zip(theirs, ours, strict=True):
        assert pieces is whole
        assert np.abs(whole.want - our_whole.want).max() < 1e-5
        assert np.array_equal(whole.clear, our_whole.clear)
    assert verify(e.folder, e.model, asked, lambda: theirs).values > 0
    export(e.model, stored(random_module(e.model, seed=1)), "x: 1\n", tmp_path / "other", verify=False)
    with pytest.raises(VerificationError, match="differs from PyTorch"):
        verify(tmp_path / "other", e.model, asked, lambda: theirs)


def test_what_it_raises_is_raised_here(process: Apart, tmp_path: Path) -> None:
    model = tiny("gpt2")
    weights = read(model, checkpoint(model, "gpt2", dict(random_module(model).stored())), tmp_path)
    file = tmp_path / "model.safetensors"
    os.truncate(file, file.stat().st_size // 2)
    process.ask(model, weights, questions(model))
    with pytest.raises(WeightsError, match="is not all there any more") as error:
        process.answers()
    assert error.value.remedy == "was it changed meanwhile?"


def test_a_fault_is_told_with_its_place(process: Apart) -> None:
    process.ask(tiny("gpt2"), {}, questions(tiny("gpt2")))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match=r"(?s)Traceback.*TypeError: 'dict' object is not callable"):
        process.answers()


def test_a_process_that_was_killed_is_out_of_memory(process: Apart) -> None:
    process.ask(tiny("gpt2"), {}, questions(tiny("gpt2")))  # type: ignore[arg-type]
    process.child.kill()
    with pytest.raises(UsageError, match="was killed, as a machine does that is out of memory") as error:
        process.answers()
    assert "--no-verify" in str(error.value.remedy)


def test_a_process_that_was_ended_is_not_out_of_memory(process: Apart) -> None:
    process.child.terminate()
    with pytest.raises(UsageError, match="was ended by SIGTERM"):
        process.answers()


def test_a_pytorch_that_cannot_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says is told, with the question taken and before it."""
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch_cpu.so: cannot open shared object file')")
    monkeypatch.syspath_prepend(tmp_path)
    process = Apart()
    try:
        with pytest.raises(UsageError, match=r"cannot be imported: libtorch_cpu\.so"):
            process.answers()
    finally:
        process.close()


def test_it_ends_with_who_asked(process: Apart) -> None:
    assert process.child.stdin is not None
    process.child.stdin.close()
    assert process.child.wait(60) == 1


def test_nobody_is_started_where_torch_is() -> None:
    with apart(True) as process:
        assert process is None


def test_a_verified_export_has_no_torch_in_its_own_process(tmp_path: Path) -> None:
    spec = tmp_path / "tiny.yaml"
    spec.write_text(text("gpt2"))
    arguments = ["export", str(spec), "-o", str(tmp_path / "out")]
    assert HEAVY & loaded(COMMAND.format(arguments=arguments)) == {"onnx", "onnx_ir", "onnxruntime"}
    assert re.search(r'"difference": \d', (tmp_path / "out/archspec.json").read_text())
