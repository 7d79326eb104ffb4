"""What weights are written: in which precision, by one vocabulary; and fresh ones by their seed, which says that they are fresh."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import load_file
from tiny import text

import archspec
from archspec.cli.main import cli
from archspec.compiler.precision import precision
from archspec.compiler.resolve import resolve
from archspec.errors import UsageError


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "spec.yaml"
    path.write_text(text("gpt2"))
    return path


def ran(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in arguments])


FLOATS = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


@pytest.mark.parametrize("name", FLOATS)
def test_a_build_is_in_the_words_of_an_export(name: str, spec: Path, tmp_path: Path) -> None:
    """And its spec in torch's."""
    assert ran("build", spec, "--precision", name, "-o", tmp_path / "built").exit_code == 0
    weights = load_file(tmp_path / "built" / "model.safetensors")
    assert {str(w.dtype) for w in weights.values()} == {f"torch.{FLOATS[name]}"}
    assert resolve(tmp_path / "built" / "spec.yaml").spec.dtype == FLOATS[name]


@pytest.mark.parametrize(
    ("other", "meant"),
    [("float16", "fp16"), ("half", "fp16"), ("FP16", "fp16"), ("bfloat16", "bf16"), ("float32", "fp32"), ("float", "fp32"),
     ("torch.bfloat16", "bf16"), ("f16", "fp16")],
)  # fmt: skip
def test_another_name_of_a_precision_is_answered_with_ours(other: str, meant: str, spec: Path, tmp_path: Path) -> None:
    out = ("-o", tmp_path / "out")
    for command in (
        ("build", spec, "--precision", other, *out),
        ("export", spec, "--precision", other, *out),
        ("export", spec, "--precision", "int4", "--compute", other, *out),
        ("count", spec, "--precision", other),
        ("count", spec, "--precision", "int8", "--compute", other),
    ):
        done = ran(*command)
        assert (done.exit_code, f"Did you mean {meant}?" in done.output) == (2, True), done.output
    assert not (tmp_path / "out").exists()
    for said in ({"name": other}, {"name": "int4", "compute": other}):
        with pytest.raises(UsageError, match=f"did you mean {meant}\\?"):
            precision(**said)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["int8", "int4", "eight"])
def test_what_is_near_to_nothing_is_answered_with_all(name: str, spec: Path, tmp_path: Path) -> None:
    done = ran("build", spec, "--precision", name, "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert "Did you mean" not in done.output
    assert all(float_ in done.output for float_ in FLOATS)


def test_torchs_types_in_python(spec: Path) -> None:
    arch = archspec.load(spec)
    for dtype in ("bfloat16", torch.bfloat16):
        assert {p.dtype for p in arch.build(dtype=dtype).parameters()} == {torch.bfloat16}
    for other, meant in (("fp16", "float16"), ("bf16", "bfloat16"), ("half", "float16")):
        with pytest.raises(UsageError, match=f"did you mean {meant}\\?"):
            arch.build(dtype=other)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="say float32, bfloat16"):
        arch.build(dtype=torch.int8)


def written(out: Path) -> Any:
    return np.fromfile(out / "model.onnx.data", np.float32)


def test_an_export_is_of_the_seed_that_is_said(spec: Path, tmp_path: Path) -> None:
    """The same weights as a build of that seed; it is verified, by a model of the same ones."""
    assert "(seed 3)" in ran("export", spec, "--seed", 3, "-o", tmp_path / "three").output
    ran("build", spec, "--seed", 3, "-o", tmp_path / "built")
    for name, source in (("of-build", tmp_path / "built"), ("zero", spec)):
        assert ran("export", source, "--no-verify", "-o", tmp_path / name).exit_code == 0
    assert np.array_equal(written(tmp_path / "three"), written(tmp_path / "of-build"))
    assert not np.array_equal(written(tmp_path / "three"), written(tmp_path / "zero"))


def test_a_seed_where_nothing_is_drawn_is_refused(spec: Path, tmp_path: Path) -> None:
    ran("build", spec, "-o", tmp_path / "built")
    out = ("--seed", 0, "-o", tmp_path / "out")
    for command in (
        ("export", tmp_path / "built", *out),
        ("export", spec, "--weights", tmp_path / "built", *out),
        ("export", spec, "--no-weights", *out),
        ("build", tmp_path / "built", *out),
        ("build", spec, "--weights", tmp_path / "built", *out),
    ):
        done = ran(*command)
        assert isinstance(done.exception, UsageError)
        assert "seed" in done.exception.message
        assert "would do nothing" in done.exception.message
    arch = archspec.load(spec)
    with pytest.raises(UsageError, match="the module's"):
        arch.export(tmp_path / "out", module=arch.build(), seed=1)
    assert not (tmp_path / "out").exists()


def test_a_summary_says_first_that_nothing_is_trained(spec: Path, tmp_path: Path) -> None:
    """Whoever trains a module and exports without it is told so, printed or shown by an interpreter."""
    arch = archspec.load(spec)
    fresh, module = arch.export(tmp_path / "fresh", seed=2), arch.export(tmp_path / "module", module=arch.build())
    for said in (str(fresh), repr(fresh)):
        assert said.startswith("fresh weights (seed 2): nothing in them is trained\n")
        assert "verified on onnxruntime" in said
        assert re.search(r"fresh \(decoder\): [\d,]+ parameters", said)
    assert "trained" not in str(module) + repr(module)
    assert arch.save(tmp_path / "built").startswith("fresh weights (seed 0): nothing in them is trained\n")
    assert "trained" not in arch.save(tmp_path / "as-is", module=arch.build())
