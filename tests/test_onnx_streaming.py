"""Exports of which no module is built: the weights are the same, little of them is in memory, and all may be left out."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from checkpoints import checkpoint
from checkpoints import model as small
from hypothesis import given
from hypothesis import strategies as st
from onnx_cases import random_module
from safetensors import safe_open
from safetensors.torch import save_file
from test_layout import COMMAND, HEAVY
from test_layout import loaded as modules_after
from tiny import text, tiny

from archspec.api import Arch, load
from archspec.cli.main import cli
from archspec.compiler.precision import Precision
from archspec.errors import UsageError, WeightsError
from archspec.exporters.fresh import Fresh, _numbers
from archspec.exporters.onnx import ahead, weights
from archspec.exporters.onnx.export import export
from archspec.exporters.onnx.sources import of_module
from archspec.exporters.onnx.weights import Array, concatenated
from archspec.exporters.rows import matrix_rows
from archspec.exporters.runtime.folder import FolderError
from archspec.exporters.runtime.session import Runtime
from archspec.exporters.torch.arrays import tensor_of
from archspec.exporters.torch.module import build
from archspec.exporters.weights.fit import fitted
from archspec.exporters.weights.source import open_weights
from archspec.exporters.weights.stream import Fitted
from archspec.language.model import FanInInit, NormalInit, XavierInit

INITS = [NormalInit(), NormalInit(residual="depth_scaled", truncated=True), XavierInit(), FanInInit()]


def arch(name: str, tmp_path: Path) -> Arch:
    path = tmp_path / f"{name}.yaml"
    path.write_text(text(name))
    return load(path)


def data(folder: Path) -> bytes:
    return (folder / "model.onnx.data").read_bytes()


@pytest.fixture
def in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows of a tiny model's matrices at a time, and little made ahead."""
    monkeypatch.setattr(weights, "CHUNK", 100)
    monkeypatch.setattr(ahead, "AHEAD", 1000)


# ------------------------------------------------------------------------------------------------------ fresh weights


@pytest.mark.parametrize("name", ["gpt2", "llama", "experts", "seq2seq", "albert"])
def test_fresh_weights_are_those_that_build_gives(name: str, tmp_path: Path, in_small_pieces: None) -> None:
    a = arch(name, tmp_path)
    a.export(tmp_path / "fresh", verify=False)
    a.export(tmp_path / "built", verify=False, module=a.build(dtype="float32"))
    assert data(tmp_path / "fresh") == data(tmp_path / "built")


@pytest.mark.parametrize("init", INITS)
def test_fresh_weights_hang_on_their_path_alone(init: Any) -> None:
    """Not on what else there is, in what order it is drawn, or how many rows at once."""
    small, large = tiny("gpt2"), tiny("gpt2", "decoder.layers=2", "vocab_size=90")
    drawn = Fresh(small, init, 3)
    whole = {t.path: drawn(t.path) for t in small.tensors()}
    again = Fresh(large, init, 3)
    for path in reversed([*whole]):
        assert np.array_equal(again(path)[: len(whole[path])], whole[path]) or "tokens" in path
        matrix = whole[path].reshape(-1, whole[path].shape[-1])
        for start in range(len(matrix)):
            assert np.array_equal(drawn(path, start, min(start + 3, len(matrix))), matrix[start : start + 3])
    assert any(not np.array_equal(Fresh(small, init, 4)(path), whole[path]) for path in whole)


def test_the_generator_is_splitmix64() -> None:
    """What its authors' code gives for the seed 1234567, of which the first number is ours of place 1."""
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert _numbers(1234567, 1, 5).tolist() == known
    assert _numbers(1234567, 4, 2).tolist() == known[3:]


def test_fresh_weights_are_as_normal_as_they_should_be() -> None:
    """Moments and tails of a million draws, against the normal distribution's own."""
    model = tiny("gpt2", "vocab_size=31250", "d_model=32")
    x = Fresh(model, NormalInit(std=1.0), 0)("decoder.embedding.tokens.weight").astype(np.float64).ravel()
    assert abs(x.mean()) < 4e-3  # 4 standard errors
    assert abs(x.std() - 1) < 3e-3
    assert abs((x**4).mean() - 3) < 0.03
    assert abs((np.abs(x) > 3).mean() - 0.0027) < 0.0003
    neighbours = np.corrcoef(x[:-1], x[1:])[0, 1]
    assert abs(neighbours) < 4e-3


def test_half_precision_is_drawn_rounded(tmp_path: Path) -> None:
    """What lies in the file of a float16 export is what a module in float16 has."""
    model = tiny("llama")
    plain = Fresh(model, NormalInit(), 0, np.float16)
    module = build(model, dtype="float16")
    for t in model.tensors():
        assert plain(t.path).dtype == np.float16
        assert np.array_equal(plain(t.path), module.tensor(t.path).detach().numpy())
    half = Precision(compute="fp16")
    export(model, plain, "x: 1\n", tmp_path / "a", verify=False, precision=half)
    export(model, of_module(module), "x: 1\n", tmp_path / "b", verify=False, precision=half)
    assert data(tmp_path / "a") == data(tmp_path / "b")


# -------------------------------------------------------------------------------------------------------- checkpoints


def saved(tensors: dict[str, torch.Tensor], folder: Path) -> Path:
    save_file({name: t.contiguous() for name, t in tensors.items()}, folder / "model.safetensors")
    return folder / "model.safetensors"


@pytest.mark.parametrize(("spec", "kind"), [("gpt2", "gpt2"), ("experts", "archspec"), ("llama", "archspec")])
def test_a_checkpoint_is_exported_as_it_would_be_built(
    spec: str, kind: str, tmp_path: Path, in_small_pieces: None
) -> None:
    a = arch(spec, tmp_path)
    module = random_module(a.model)
    saved(checkpoint(a.model, kind, dict(module.stored())), tmp_path)
    a.export(tmp_path / "read", verify=False, weights=tmp_path / "model.safetensors")
    a.export(tmp_path / "built", verify=False, module=module)
    assert data(tmp_path / "read") == data(tmp_path / "built")


MIXTRAL = """
norm: rmsnorm
decoder:
  layers: 2
  attention: {heads: 4, kv_heads: 2, position: rope}
  ffn:
    {kind: moe, experts: 3, top_k: 2, router: {score: softmax, normalize: true}, expert: {kind: gated, width: 12, activation: silu}}
head: {tied: false}
"""


@pytest.mark.parametrize("stacked", [False, True])
def test_any_rows_of_a_checkpoint(stacked: bool, tmp_path: Path) -> None:
    """Of experts that stand one by one, and of experts in one tensor with gate and up fused."""
    made = small(MIXTRAL)
    values = {t.path: torch.randn(t.shape) for t in made.tensors()}
    tensors = checkpoint(made, "mixtral", values)
    if stacked:
        for i in range(2):
            at = f"model.layers.{i}.block_sparse_moe.experts"
            w1, w2, w3 = ([tensors.pop(f"{at}.{e}.w{n}.weight") for e in range(3)] for n in (1, 2, 3))
            fused = f"model.layers.{i}.mlp.experts"
            tensors[f"{fused}.gate_up_proj"] = torch.stack([torch.cat(pair) for pair in zip(w1, w3, strict=True)])
            tensors[f"{fused}.down_proj"] = torch.stack(w2)
            tensors[f"model.layers.{i}.mlp.gate.weight"] = tensors.pop(f"model.layers.{i}.block_sparse_moe.gate.weight")
    source = open_weights(saved(tensors, tmp_path))
    read = Fitted(source, fitted(made, source))
    for path, value in values.items():
        assert np.array_equal(read(path), value.numpy())
        matrix = value.reshape(-1, value.shape[-1]).numpy()
        for start in range(0, len(matrix), 5):
            assert np.array_equal(read(path, start, min(start + 5, len(matrix))), matrix[start : start + 5])


def test_a_checkpoint_of_another_model_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    a = arch("gpt2", tmp_path)
    values = dict(build(tiny("gpt2", "vocab_size=60")).stored())
    saved(checkpoint(tiny("gpt2", "vocab_size=60"), "gpt2", values), tmp_path)
    with pytest.raises(WeightsError, match="60 rows"):
        a.export(tmp_path / "out", weights=tmp_path / "model.safetensors")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_rows_of_a_safetensors_file(dtype: torch.dtype, tmp_path: Path) -> None:
    """Against the format's own library."""
    file = tmp_path / "x.safetensors"
    save_file({"a": (torch.randn(7, 5) * 9).to(dtype), "b": (torch.randn(2, 3, 5) * 9).to(dtype)}, file)
    opened = open_weights(file)
    with safe_open(file, "pt") as theirs:
        for name in ("a", "b"):
            whole = theirs.get_tensor(name)
            assert torch.equal(tensor_of(opened.read(name)), whole)
            assert torch.equal(tensor_of(opened.read(name, 1, 4)), whole.reshape(-1, 5)[1:4])


# ------------------------------------------------------------------------------------------------------------- memory


def test_an_export_holds_little_of_what_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of 16 MB, tied, and 8 layers of 3 MB: neither all of them, nor the table, is ever in memory at once."""
    monkeypatch.setattr(weights, "CHUNK", 1 << 16)
    monkeypatch.setattr(ahead, "AHEAD", 1 << 20)
    spec = tmp_path / "wide.yaml"
    spec.write_text(
        "archspec: 1\nname: wide\nvocab_size: 16384\nd_model: 256\ncontext_length: 64\nnorm: rmsnorm\n"
        "decoder: {layers: 8, attention: {heads: 4, position: rope}, ffn: {kind: gated, width: 768, activation: silu}}\n"
        "head: {tied: true}\n"
    )
    a = load(spec)
    a.export(tmp_path / "first", verify=False)  # what is imported and tabulated once
    tracemalloc.start()
    try:
        summary = a.export(tmp_path / "out", verify=False)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert summary.weight_bytes > 40e6
    assert peak < 6e6


def test_threads_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a = arch("experts", tmp_path)
    for cores in (1, 5):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, cores=cores: range(cores))
        monkeypatch.setattr(weights, "CHUNK", 50 * cores)
        a.export(tmp_path / str(cores), verify=False)
    assert data(tmp_path / "1") == data(tmp_path / "5")


def test_a_fault_in_a_thread_ends_the_export(tmp_path: Path) -> None:
    model = tiny("gpt2")
    fresh = Fresh(model, NormalInit(), 0)

    def faulty(path: str, *rows: int) -> Array:
        if path.endswith("1.ffn.down.weight"):
            raise WeightsError("unreadable")
        return fresh(path, *rows)

    with pytest.raises(WeightsError, match="unreadable"):
        export(model, faulty, "x: 1\n", tmp_path / "out", verify=False)
    assert not list(tmp_path.iterdir())


@given(st.integers(1, 200), st.integers(1, 9), st.booleans())
def test_a_matrix_is_turned(rows: int, columns: int, flipped: bool) -> None:
    x = np.arange(rows * columns).reshape(rows, columns)
    x = np.asfortranarray(x) if flipped else x
    assert ahead.transposed(x).tolist() == [[*column] for column in x.T.tolist()]


@given(st.integers(0, 24), st.integers(0, 24))
def test_rows_of_a_stack_and_of_matrices_one_below_the_other(a: int, b: int) -> None:
    start, stop = sorted((a, b))
    stack = np.arange(24 * 5).reshape(4, 6, 5)
    flat = stack.reshape(24, 5)
    assert np.array_equal(matrix_rows(stack, start, stop), flat[start:stop])
    parts: list[tuple[int, Any]] = [
        (n, lambda i, j, at=at: flat[at + i : at + j]) for at, n in ((0, 7), (7, 1), (8, 16))
    ]
    if start < stop:
        assert np.array_equal(concatenated(parts)(start, stop), flat[start:stop])


# --------------------------------------------------------------------------------------------------- without weights


def test_graphs_without_weights(tmp_path: Path) -> None:
    a = arch("llama", tmp_path)
    summary = a.export(tmp_path / "graphs", graph_only=True)
    whole = a.export(tmp_path / "whole", verify=False)
    manifest = json.loads((tmp_path / "graphs/archspec.json").read_text())
    assert (manifest["weights"], manifest["verification"]) == (None, None)
    assert "model.onnx.data" not in os.listdir(tmp_path / "graphs")
    assert summary.weight_bytes == whole.weight_bytes == len(data(tmp_path / "whole"))
    for file in ("model.onnx", "logits.onnx"):  # they need nothing but the weights
        assert (tmp_path / "graphs" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
    (tmp_path / "graphs/model.onnx.data").write_bytes(data(tmp_path / "whole"))
    onnx.checker.check_model(tmp_path / "graphs/model.onnx", full_check=True)


def test_a_runtime_says_that_there_are_no_weights(tmp_path: Path) -> None:
    arch("gpt2", tmp_path).export(tmp_path / "out", graph_only=True)
    with pytest.raises(FolderError, match="without their weights") as error:
        Runtime.load(tmp_path / "out")
    assert "--no-weights" in str(error.value.remedy)


@pytest.mark.parametrize("trained", [False, True])
def test_an_export_says_that_its_weights_are_fresh(
    trained: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, spec, out = arch("gpt2", tmp_path), str(tmp_path / "gpt2.yaml"), tmp_path / "out"
    given = ["--weights", str(saved(checkpoint(a.model, "archspec", dict(random_module(a.model).stored())), tmp_path))]
    cli.main(["export", spec, "--no-verify", "-o", str(out), *given * trained], standalone_mode=False)
    assert ("fresh weights (seed 0): nothing in them is trained" in capsys.readouterr().out) is not trained
    assert json.loads((out / "archspec.json").read_text())["fresh_seed"] == (None if trained else 0)


def test_the_command_says_what_it_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tmp_path / "tiny.yaml"
    spec.write_text(text("mla"))
    out = ["-o", str(tmp_path / "out")]
    cli.main(["export", str(spec), "--no-weights", *out], standalone_mode=False)
    said = capsys.readouterr().out
    assert "no genai_config.json: it keeps keys and values, and layer 0 remembers latent" in said
    assert "the graphs alone, not verified" in said
    with pytest.raises(UsageError, match="contradict"):
        cli.main(["export", str(spec), "--no-weights", "--weights", "x.gguf", *out], standalone_mode=False)


@pytest.mark.parametrize("option", ["--no-weights", "--no-verify"])
def test_an_export_needs_no_torch(option: str, tmp_path: Path) -> None:
    spec = tmp_path / "tiny.yaml"
    spec.write_text(text("gpt2"))
    arguments = ["export", str(spec), option, "-o", str(tmp_path / "out")]
    heavy = {*HEAVY, "rich", "jinja2"} & modules_after(COMMAND.format(arguments=arguments))
    assert heavy == {"onnx", "onnx_ir"}


@pytest.mark.parametrize("kind", ["archspec", "gpt2"])
def test_an_export_of_a_checkpoint_needs_no_torch(kind: str, tmp_path: Path) -> None:
    """To fuse and to turn matrices as GPT-2's checkpoints have them neither."""
    a = arch("gpt2", tmp_path)
    file = saved(checkpoint(a.model, kind, dict(random_module(a.model).stored())), tmp_path)
    arguments = [
        "export",
        str(tmp_path / "gpt2.yaml"),
        "--weights",
        str(file),
        "--no-verify",
        "-o",
        str(tmp_path / "out"),
    ]
    assert HEAVY & modules_after(COMMAND.format(arguments=arguments)) == {"onnx", "onnx_ir", "safetensors"}


# ---------------------------------------------------------------------------------------------------------- no room


def test_no_room_to_verify_is_said_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a = arch("gpt2", tmp_path)
    monkeypatch.setattr("archspec.exporters.room.free_memory", lambda: 1000)
    monkeypatch.setattr("archspec.exporters.onnx.export.write_weights", lambda *args: pytest.fail("written"))
    with pytest.raises(UsageError, match="To verify gpt2 takes") as error:
        a.export(tmp_path / "out")
    assert "--no-verify" in str(error.value.remedy)
    assert not (tmp_path / "out").exists()
