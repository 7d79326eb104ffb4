"""`archspec build`: what the folder holds, and what it may replace."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from checkpoints import GPT2, LLAMA, checkpoint, model
from safetensors.torch import load_file, save_file

from archspec.compiler.lower import lower
from archspec.compiler.resolve import resolve, resolve_text
from archspec.errors import UsageError, WeightsError
from archspec.exporters.torch.module import build
from archspec.exporters.weights.folder import write_folder
from archspec.exporters.weights.source import open_weights


def small(text: str = LLAMA, weights: Path | None = None) -> Any:
    """What a compiled spec is to `write_folder`."""
    spec = resolve_text(f"archspec: 1\nname: small\nvocab_size: 13\nd_model: 8\n{text}").spec
    return SimpleNamespace(spec=spec, model=lower(spec), checkpoint=lambda named: named or weights)


def trained(folder: Path, dtype: torch.dtype = torch.float32) -> Path:
    folder.mkdir(exist_ok=True)
    save_file({n: t.to(dtype) for n, t in checkpoint(model(LLAMA), "llama").items()}, folder / "model.safetensors")
    return folder


def test_a_module_is_written_as_it_is(tmp_path: Path) -> None:
    """One that was trained, say; in the type that it has, and whatever lies beside the spec."""
    module = build(small().model, dtype="bfloat16", seed=5)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 1
    write_folder(small(weights=trained(tmp_path / "beside")), tmp_path / "a", module=module)
    written = load_file(tmp_path / "a" / "model.safetensors")
    assert set(written) == {t.path for t in small().model.tensors()}
    assert all(torch.equal(tensor, module.tensor(path)) for path, tensor in written.items())
    assert resolve(tmp_path / "a" / "spec.yaml").spec.dtype == "bfloat16"


def test_a_fresh_build_is_its_spec_and_its_weights(tmp_path: Path) -> None:
    said = write_folder(small(), tmp_path / "a", seed=3)
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["model.safetensors", "spec.yaml"]
    assert "fresh weights (seed 3): nothing in them is trained" in said
    assert resolve(tmp_path / "a" / "spec.yaml").spec == small().spec
    write_folder(small(), tmp_path / "b", seed=3)
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in "ab")
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_build_of_a_build_has_its_weights(tmp_path: Path) -> None:
    write_folder(small(), tmp_path / "a", weights=trained(tmp_path / "hf"))
    write_folder(small(weights=tmp_path / "a"), tmp_path / "b", layout="hf")
    again, first = (load_file(tmp_path / name / "model.safetensors") for name in ("b", "hf"))
    assert again.keys() == first.keys()
    assert all(torch.equal(again[name], first[name]) for name in first)
    assert open_weights(tmp_path / "b").metadata["architectures"] == ["LlamaForCausalLM"]


@pytest.mark.parametrize(
    ("stored", "asked", "written"),
    [("float32", None, "F32"), ("bfloat16", None, "BF16"), ("float16", None, "F16"), ("float64", None, "F32"),
     ("float32", "bfloat16", "BF16")],
)  # fmt: skip
def test_weights_keep_their_precision_unless_told(tmp_path: Path, stored: str, asked: str | None, written: str) -> None:
    said = write_folder(small(), tmp_path / "a", weights=trained(tmp_path / "hf", getattr(torch, stored)), dtype=asked)
    assert set(open_weights(tmp_path / "a").dtypes.values()) == {written}
    spec = resolve(tmp_path / "a" / "spec.yaml").spec
    assert {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}[written] == spec.dtype
    assert ("converted" in said) == (stored != spec.dtype)


def test_a_tokenizer_comes_along(tmp_path: Path) -> None:
    source = trained(tmp_path / "hf")
    (source / "tokenizer.json").write_text("{}")
    said = write_folder(small(), tmp_path / "a", weights=source / "model.safetensors")
    assert (tmp_path / "a" / "tokenizer.json").is_file()
    assert "tokenizer.json" in said


def test_an_earlier_build_is_replaced_only_when_told(tmp_path: Path) -> None:
    write_folder(small(), tmp_path / "a")
    with pytest.raises(UsageError, match="holds an earlier build"):
        write_folder(small(), tmp_path / "a")
    write_folder(small(GPT2), tmp_path / "a", overwrite=True)
    assert resolve(tmp_path / "a" / "spec.yaml").spec == small(GPT2).spec


def test_what_no_build_wrote_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(UsageError, match=r"no build wrote: thesis\.tex"):
            write_folder(small(), tmp_path, overwrite=overwrite)
    with pytest.raises(UsageError, match="is a file"):
        write_folder(small(), tmp_path / "thesis.tex")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_weights_that_do_not_fit_leave_no_folder(tmp_path: Path) -> None:
    with pytest.raises(WeightsError):
        write_folder(small(GPT2), tmp_path / "a", weights=trained(tmp_path / "hf"))
    assert not (tmp_path / "a").exists()


def test_the_config_is_plain_json(tmp_path: Path) -> None:
    write_folder(small(GPT2), tmp_path / "a", layout="hf")
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    assert (config["model_type"], config["n_positions"], config["n_inner"], config["dtype"]) == (
        "gpt2",
        5,
        12,
        "float32",
    )


def test_layout_hf_needs_a_family(tmp_path: Path) -> None:
    odd = small(LLAMA.replace("position: rope", "position: rope, softcap: 5.0"))
    with pytest.raises(WeightsError, match=r"attention\.scores\.softcap is 5\.0"):
        write_folder(odd, tmp_path / "a", layout="hf")
    assert not (tmp_path / "a").exists()
