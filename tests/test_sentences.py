"""Vectors of sentences, pooled as the files beside a checkpoint say. transformers is the witness, pooled by hand."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from exported import exported
from parity import cases
from tiny import text as tiny_text
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch.nn.functional import normalize

from archspec.cli.main import cli
from archspec.errors import ArchspecError, UsageError
from archspec.exporters.runtime.folder import FolderError
from archspec.exporters.runtime.session import Runtime
from archspec.exporters.weights.special import TextError

(BARE,) = (case for case in cases() if case.name == "bert (bare)")
TEXTS = ["a b", "c", "d a b c"]
KINDS = {
    kind: f"sentence_transformers.models.{kind}" for kind in ("Transformer", "Pooling", "Normalize", "Dense", "Dropout")
}


def modules(*kinds: str) -> list[dict[str, Any]]:
    paths = ["" if kind == "Transformer" else f"{i}_{kind}" for i, kind in enumerate(kinds)]
    return [
        {"idx": i, "name": str(i), "path": p, "type": KINDS[k]}
        for i, (k, p) in enumerate(zip(kinds, paths, strict=True))
    ]


def modes(**on: bool) -> dict[str, Any]:
    said = {"cls_token": False, "mean_tokens": False, "max_tokens": False, "mean_sqrt_len_tokens": False} | on
    return {"word_embedding_dimension": 24, **{f"pooling_mode_{mode}": value for mode, value in said.items()}}


def say(folder: Path, kinds: list[str] | None, pooling: dict[str, Any] | None) -> Path:
    """Write the files of sentence-transformers."""
    if kinds is not None:
        (folder / "modules.json").write_text(json.dumps(modules(*kinds)))
    if pooling is not None:
        (folder / "1_Pooling").mkdir(exist_ok=True)
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


def told(*arguments: object) -> str:
    result = CliRunner().invoke(cli, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def by_hand(mode: str, unit: bool) -> Any:
    """The texts' vectors, from transformers' hidden states."""
    tokens = [tokenizer().encode(t).ids for t in TEXTS]
    with torch.no_grad():
        hidden = [BARE.made()(torch.tensor([ids])).last_hidden_state[0] for ids in tokens]
    vectors = torch.stack([{"mean": h.mean(0), "first": h[0], "last": h[-1]}[mode] for h in hidden])
    return (normalize(vectors) if unit else vectors).numpy()


def tokenizer() -> Tokenizer:
    made = Tokenizer(
        models.WordLevel({w: i for i, w in enumerate(["[CLS]", "[SEP]", "a", "b", "c", "d"])}, unk_token="d")
    )
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 0), ("[SEP]", 1)])
    return made


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sentences") / "checkpoint"
    BARE.made().save_pretrained(folder)
    tokenizer().save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def bare(checkpoint: Path) -> Path:
    """An export of it that says nothing of pooling."""
    out = checkpoint.parent / "bare"
    told("import", checkpoint, "-o", out.with_suffix(".yaml"))
    told("export", out.with_suffix(".yaml"), "--weights", checkpoint, "-o", out)
    return out


SAID = [
    (None, None, "mean", True),
    (["Transformer", "Pooling", "Normalize"], modes(cls_token=True), "first", True),
    (["Transformer", "Pooling", "Dropout"], modes(cls_token=True), "first", False),
    (["Transformer", "Pooling"], modes(mean_tokens=True), "mean", False),
    (["Transformer", "Pooling", "Normalize"], modes(lasttoken=True), "last", True),
    (["Transformer", "Pooling", "Normalize"], {"embedding_dimension": 24, "pooling_mode": "cls"}, "first", True),
    (None, modes(cls_token=True), "first", True),
]


@pytest.mark.parametrize(("kinds", "pooling", "mode", "unit"), SAID)
@pytest.mark.parametrize("by", ["build", "build --as hf", "export"])
def test_vectors_are_pooled_as_the_checkpoint_says(
    by: str, kinds: list[str] | None, pooling: dict[str, Any] | None, mode: str, unit: bool, checkpoint: Path, tmp_path: Path
) -> None:  # fmt: skip
    """From the checkpoint to the vectors, with a build between or without."""
    folder = say(copytree(checkpoint, tmp_path / "checkpoint"), kinds, pooling)
    spec, built, out = tmp_path / "spec.yaml", tmp_path / "built", tmp_path / "out"
    told("import", folder, "-o", spec)
    source: list[object] = [spec, "--weights", folder]
    if by != "export":
        for force in ([], ["--force"]):
            told(*by.split(), *source, "-o", built, *force)
        source = [built] if by == "build" else [spec, "--weights", built]
    for force in ([], ["--force"]):
        told("export", *source, "--no-verify", "-o", out, *force)
    asked = [part for text in TEXTS for part in ("--embed", text)]
    said = json.loads(told("run", out, "--device=cpu", "--json", *asked))
    np.testing.assert_allclose([row["vector"] for row in said], by_hand(mode, unit), atol=1e-5)
    for other in ("mean", "first", "last"):
        said = json.loads(told("run", out, "--device=cpu", "--json", *asked, "--pooling", other))
        np.testing.assert_allclose([row["vector"] for row in said], by_hand(other, unit), atol=1e-5)


def test_the_files_are_those_that_were_exported(checkpoint: Path, tmp_path: Path) -> None:
    """A pooling in a folder of its own is hashed as all else, and an export that holds more is not replaced."""
    folder = say(copytree(checkpoint, tmp_path / "checkpoint"), ["Transformer", "Pooling"], modes(cls_token=True))
    told("import", folder, "-o", tmp_path / "spec.yaml")
    again = ["export", tmp_path / "spec.yaml", "--weights", folder, "--no-verify", "-o", tmp_path / "out", "--force"]
    told(*again)
    config = tmp_path / "out" / "1_Pooling" / "config.json"
    assert "1_Pooling/config.json" in json.loads((tmp_path / "out" / "archspec.json").read_text())["files"]
    config.write_text(config.read_text().replace("24", "25"))
    with pytest.raises(FolderError, match=r"1_Pooling/config\.json is not the one"):
        Runtime.load(tmp_path / "out", "cpu")
    for mine in ("1_Pooling/notes", "notes"):
        (tmp_path / "out" / mine).mkdir()
        (tmp_path / "out" / mine / "thesis.tex").write_text("years of work")
        with pytest.raises(UsageError, match=f"did not write: {mine}"):
            told(*again)
        (tmp_path / "out" / mine / "thesis.tex").unlink()
        (tmp_path / "out" / mine).rmdir()
    told(*again)


@pytest.mark.parametrize(
    ("kinds", "pooling", "said"),
    [
        (["Transformer", "Pooling"], modes(max_tokens=True), "the pooling max_tokens"),
        (["Transformer", "Pooling"], modes(weightedmean_tokens=True), "the pooling weightedmean_tokens"),
        (["Transformer", "Pooling"], {"pooling_mode": "max"}, "the pooling max"),
        (["Transformer", "Pooling"], modes(cls_token=True, mean_tokens=True), "cls_token and mean_tokens"),
        (["Transformer", "Pooling"], modes(), "no pooling at all"),
        (["Transformer", "Pooling"], None, "1_Pooling/config.json"),
        (["Transformer", "Pooling", "Dense", "Normalize"], modes(mean_tokens=True), "a module Dense"),
        (["Transformer", "Normalize", "Pooling"], modes(mean_tokens=True), "Transformer, Normalize, Pooling"),
    ],
)
def test_what_is_not_done_is_refused(
    kinds: list[str], pooling: dict[str, Any] | None, said: str, bare: Path, tmp_path: Path
) -> None:
    folder = say(copytree(bare, tmp_path / "out"), kinds, pooling)
    runtime = Runtime.load(folder, "cpu")
    with pytest.raises(UsageError, match=said):
        runtime.embed([[0, 2, 1]])
    with pytest.raises(UsageError, match=said):
        told("run", folder, "--device=cpu", "--embed", "a")
    vectors = runtime.embed([tokenizer().encode(t).ids for t in TEXTS], "mean", normalize=False)
    np.testing.assert_allclose(vectors, by_hand("mean", False), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "content"), [("modules.json", "{"), ("modules.json", "[1]"), ("1_Pooling/config.json", "[]")]
)
def test_files_that_are_damaged(name: str, content: str, bare: Path, tmp_path: Path) -> None:
    folder = say(copytree(bare, tmp_path / "out"), ["Transformer", "Pooling"], modes())
    (folder / name).write_text(content)
    with pytest.raises(TextError, match=name):
        Runtime.load(folder, "cpu").embed([[0, 2, 1]])


def test_a_pooler_makes_vectors_by_itself(tmp_path: Path) -> None:
    out = exported(tiny_text("bert"), tmp_path / "out", "head={kind: pooler}").folder
    runtime = Runtime.load(out, "cpu")
    assert runtime.embed([[1, 2]]).shape == (1, 32)
    with pytest.raises(UsageError, match="has a pooler"):
        runtime.embed([[1, 2]], "mean")
    with pytest.raises(UsageError, match="no pooling 'max'"):
        runtime.embed([[1, 2]], "max")  # type: ignore[arg-type]
    say(out, ["Transformer", "Pooling"], modes(mean_tokens=True))
    with pytest.raises(UsageError, match="head=none"):
        Runtime.load(out, "cpu").embed([[1, 2]])


def test_cosines_are_cosines_of_vectors_of_any_length(bare: Path, tmp_path: Path) -> None:
    folder = say(copytree(bare, tmp_path / "out"), ["Transformer", "Pooling"], modes(mean_tokens=True))
    lines = told("run", folder, "--device=cpu", *(part for text in TEXTS for part in ("--embed", text))).splitlines()[
        1:
    ]
    unit = by_hand("mean", True)
    np.testing.assert_allclose([float(line.split()[0]) for line in lines], unit @ unit[0], atol=1e-4)


def test_a_vector_is_told_in_a_line_that_can_be_read(bare: Path) -> None:
    (line,) = told("run", bare, "--device=cpu", "--embed", TEXTS[0]).splitlines()
    first = " ".join(f"{x:.6f}" for x in by_hand("mean", True)[0][:5])
    assert line == f"24 numbers, norm 1.0000: {first} …"
    assert len(line) < 100


def test_errors_say_in_python_what_python_calls_it(bare: Path, tmp_path: Path) -> None:
    folder = say(copytree(bare, tmp_path / "out"), ["Transformer", "Pooling"], modes(max_tokens=True))
    with pytest.raises(ArchspecError, match="pooling mean, pooling first or pooling last") as caught:
        Runtime.load(folder, "cpu").embed([[0, 2, 1]])
    assert "--" not in str(caught.value)
