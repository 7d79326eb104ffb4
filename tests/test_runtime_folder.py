"""Folders that are no sound exports: each fault is told by name, before anything is loaded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from exported import Exported, companions, exported, rows
from tiny import text
from tokenizers import Tokenizer, models

from archspec.exporters.onnx.beside import Beside
from archspec.exporters.runtime.folder import FolderError, open_folder
from archspec.exporters.runtime.session import Runtime


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return exported(text("gpt2"), tmp_path_factory.mktemp("export") / "gpt2")


def damage(folder: Path, how: str) -> None:
    """One way for a folder to be no sound export."""
    sidecar, manifest = folder / "model.onnx.data", folder / "archspec.json"
    match how:
        case "no folder":
            shutil.rmtree(folder)
        case "a file":
            shutil.rmtree(folder)
            folder.write_text("hello")
        case "no manifest":
            manifest.unlink()
        case "manifest cut":
            manifest.write_bytes(manifest.read_bytes()[:100])
        case "manifest of something else":
            manifest.write_text('{"name": "x"}')
        case "manifest is a list":
            manifest.write_text("[]")
        case "other layout":
            manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "archspec_export": 99}))
        case "no graph":
            (folder / "model.onnx").unlink()
        case "no weights":
            sidecar.unlink()
        case "weights cut":
            sidecar.write_bytes(sidecar.read_bytes()[:-1])
        case "weights too long":
            sidecar.write_bytes(sidecar.read_bytes() + b"0")
        case "graph cut":
            (folder / "model.onnx").write_bytes((folder / "model.onnx").read_bytes()[:-10])
        case "graph is rubbish":
            (folder / "model.onnx").write_bytes(b"\xff" * (folder / "model.onnx").stat().st_size)
        case "spec changed":
            spec = folder / "spec.yaml"
            spec.write_text(spec.read_text().replace("repeat: 2", "repeat: 3").replace("width: 48", "width: 49"))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("no folder", "does not exist"),
        ("a file", "is a file"),
        ("no manifest", "is no export: it has no archspec.json"),
        ("manifest cut", "is not JSON"),
        ("manifest of something else", "no manifest of layout 2"),
        ("manifest is a list", "no manifest of layout 2"),
        ("other layout", "no manifest of layout 2, but of 99"),
        ("no graph", r"model\.onnx is missing"),
        ("no weights", r"model\.onnx\.data is missing"),
        ("weights cut", r"model\.onnx\.data has [\d,]+ bytes and was written with [\d,]+"),
        ("weights too long", r"model\.onnx\.data has [\d,]+ bytes"),
        ("graph cut", r"model\.onnx has [\d,]+ bytes"),
        ("graph is rubbish", r"model\.onnx is not the one that was exported"),
        ("spec changed", r"spec\.yaml is not the one that was exported"),
    ],
)
def test_damaged_folders(sound: Exported, tmp_path: Path, how: str, said: str) -> None:
    folder = tmp_path / "export"
    shutil.copytree(sound.folder, folder)
    damage(folder, how)
    with pytest.raises(FolderError, match=said):
        Runtime.load(folder, "cpu")


def test_a_bit_of_the_weights_is_found_when_asked(sound: Exported, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    shutil.copytree(sound.folder, folder)
    Runtime.load(folder, "cpu", check=True)
    weights = bytearray((folder / "model.onnx.data").read_bytes())
    weights[len(weights) // 2] ^= 1
    (folder / "model.onnx.data").write_bytes(weights)
    Runtime.load(folder, "cpu")
    with pytest.raises(FolderError, match=r"model\.onnx\.data is not the one that was exported"):
        Runtime.load(folder, "cpu", check=True)


def test_a_folder_may_be_moved(sound: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(sound.folder, tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    assert rows(Runtime.load("moved", "cpu").generate([[5, 6]], max_new_tokens=3)) == [sound.greedy([5, 6], 3)]


@pytest.fixture(scope="module")
def dressed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export with all that comes with trained weights."""
    path = tmp_path_factory.mktemp("dressed")
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    tokenizer.save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text('{"eos_token": "b"}')
    (path / "special_tokens_map.json").write_text('{"eos_token": "b"}')
    (path / "generation_config.json").write_text('{"eos_token_id": 1}')
    (path / "chat_template.jinja").write_text("{{ messages[0].content }}")
    beside = Beside(companions(*sorted(path.iterdir())))
    return exported(text("gpt2"), path / "out", beside=beside).folder


SETTINGS = {"genai_config.json", "generation_config.json", "chat_template.jinja"}


def test_every_file_but_the_settings_is_the_one_that_was_exported(dressed: Path, tmp_path: Path) -> None:
    """One number or letter is changed in each, by the length that it has; a file that nobody watches would go unnoticed."""
    names = {path.name for path in dressed.iterdir()}
    assert {*SETTINGS, "config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"} < names
    for name in sorted(names):
        folder = tmp_path / name
        shutil.copytree(dressed, folder)
        content = bytearray((folder / name).read_bytes())
        content[-3] ^= 1
        (folder / name).write_bytes(content)
        if name in SETTINGS:
            open_folder(folder, check=True)
            continue
        with pytest.raises(FolderError, match=name.replace(".", r"\.")):
            open_folder(folder, check=True)


@pytest.mark.parametrize("key", ["context_length", "vocab_size", "precision", "parameters", "form", "graphs", "sha256"])
def test_a_manifest_says_what_the_export_is_and_nothing_else(sound: Exported, tmp_path: Path, key: str) -> None:
    """Laid out anew it is the same; a fact more, less or changed is found."""
    folder = tmp_path / "export"
    shutil.copytree(sound.folder, folder)
    manifest = json.loads((folder / "archspec.json").read_text())
    (folder / "archspec.json").write_text(json.dumps(dict(reversed(manifest.items()))))
    open_folder(folder)
    without = {k: v for k, v in manifest.items() if k != key}
    for changed in (without, {**manifest, key: 4096}, {**manifest, key: None}, {**manifest, "another": 1}):
        (folder / "archspec.json").write_text(json.dumps(changed))
        with pytest.raises(FolderError, match=r"archspec\.json was changed after the export") as caught:
            open_folder(folder)
        assert "genai_config.json" in str(caught.value.remedy)
