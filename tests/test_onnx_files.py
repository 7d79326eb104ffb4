"""What an exported folder holds: its bytes, its manifest, and that it works wherever it stands."""

from __future__ import annotations

import errno
import gc
import hashlib
import json
import os
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from exported import companions
from onnx_cases import Exported, exported, random_module, stored
from tiny import TINY, tiny

from archspec.errors import UsageError
from archspec.exporters.onnx import export as export_module
from archspec.exporters.onnx.beside import Beside
from archspec.exporters.onnx.emit import parts
from archspec.exporters.onnx.export import export
from archspec.exporters.onnx.questions import Case
from archspec.exporters.onnx.sidecar import LARGE, LINE, PAGE, layout
from archspec.exporters.onnx.verify import Graph
from archspec.exporters.rows import matrix_rows
from archspec.ops.attention import DistanceTable
from archspec.ops.base import walk
from archspec.ops.latent import LatentAttention
from archspec.ops.leaves import Linear
from archspec.ops.moe import Moe

#: What a graph costs beside its weights, in bytes: some of it once, some for each layer, expert and attention in two ways.
GRAPH, LAYER, EXPERT, LATENT, DISTANCES = 6_000, 10_000, 2_500, 4_000, 4_000


@pytest.mark.parametrize("name", TINY)
def test_bytes_are_four_times_the_parameters(name: str) -> None:
    """The sidecar exactly, alignment aside; the graphs add a stated constant."""
    e = exported(name)
    sizes = [4 * t.size for t in e.model.tensors()]
    data = (e.folder / "model.onnx.data").stat().st_size
    stacked = [t.leaf.experts or 1 if isinstance(t.leaf, Linear) else 1 for t in e.model.tensors()]
    assert sum(sizes) <= data < sum(sizes) + LINE * sum(stacked)
    layers = sum(len(s.layers) for s in e.model.stacks().values())
    experts = sum(op.experts for _, op, _ in walk(e.model) if isinstance(op, Moe))
    latents = sum(isinstance(op, LatentAttention) for _, op, _ in walk(e.model))
    compared = sum(isinstance(op, DistanceTable) for _, op, _ in walk(e.model))
    beside = GRAPH + LAYER * layers + EXPERT * experts + LATENT * latents + DISTANCES * compared
    for file in parts(e.model).values():
        assert (e.folder / file).stat().st_size < beside


def test_large_tensors_start_on_pages() -> None:
    starts, end = layout([100, LARGE, 4, 2 * LARGE])
    assert starts == [0, PAGE, PAGE + LARGE, 2 * PAGE + LARGE]
    assert end == 2 * PAGE + 3 * LARGE


@pytest.mark.parametrize(
    "name", ["gpt2", "bert", "seq2seq", "albert", "t5", "buckets", "sinks", "moe", "experts", "mla"]
)
def test_no_weight_is_held_twice_before_or_after_optimisation(name: str, tmp_path: Path) -> None:
    e = exported(name)
    for file in parts(e.model).values():
        proto = onnx.load(e.folder / file, load_external_data=False)
        tables = [i.name for i in proto.graph.initializer if 61 in i.dims and len(i.dims) == 2]
        assert len(tables) <= (1 if "head.out.weight" in e.model.ties else 2)
        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.optimized_model_filepath = str(tmp_path / file)
        ort.InferenceSession(e.folder / file, options, providers=["CPUExecutionProvider"])
        optimised = onnx.load(tmp_path / file, load_external_data=False)
        held = sum(
            int(np.prod(i.dims)) * 4 for i in optimised.graph.initializer if i.data_type == onnx.TensorProto.FLOAT
        )
        assert held <= 4 * sum(t.size for t in e.model.tensors()) + 1000


def test_graphs_share_one_sidecar() -> None:
    e = exported("seq2seq")
    seen: dict[str, set[tuple[str, ...]]] = {}
    for file in parts(e.model).values():
        for i in onnx.load(e.folder / file, load_external_data=False).graph.initializer:
            if i.data_location == onnx.TensorProto.EXTERNAL:
                seen.setdefault(i.name, set()).add(tuple(x.value for x in i.external_data))
    assert set(seen) == {t.path for t in e.model.tensors()}
    assert all(len(places) == 1 and next(iter(places))[0] == "model.onnx.data" for places in seen.values())
    assert not (e.folder / "model.onnx.data").is_symlink()


def test_the_folder_moves_and_loads_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    e = exported("gpt2")
    feed, _ = e.send(Case(1, (5,), False, 1))
    shutil.copytree(e.folder, tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    assert np.array_equal(Graph(Path("moved/logits.onnx")).run(feed)["logits"], e.whole(feed))
    monkeypatch.chdir("/")
    assert np.array_equal(Graph(tmp_path / "moved/logits.onnx").run(feed)["logits"], e.whole(feed))


def test_the_manifest_says_what_is_there() -> None:
    e: Exported = exported("sandwich")
    manifest = json.loads((e.folder / "archspec.json").read_text())
    assert sorted([*manifest["files"], "archspec.json"]) == sorted(os.listdir(e.folder))
    assert (manifest["form"], manifest["head"], manifest["output"]) == ("decoder", "lm", "logits")
    assert (manifest["vocab_size"], manifest["precision"], manifest["verification"]) == (61, "fp32", None)
    assert manifest["parameters"] == sum(t.size for t in e.model.tensors())
    cached = manifest["graphs"]["cached"]
    assert cached["file"] == "model.onnx"
    assert cached["inputs"][0] == {"name": "input_ids", "type": "int64", "shape": ["batch", "length"]}
    assert cached["inputs"][2] == {"name": "past.0.key", "type": "float32", "shape": ["batch", 2, "past_5", 24]}
    assert cached["inputs"][3]["shape"] == ["batch", 2, "past_5", 20]


def test_the_spec_and_its_hash_travel_in_every_graph(tmp_path: Path) -> None:
    model, text = tiny("gpt2"), "a: ü\n"
    module = random_module(model)
    summary = export(model, stored(module), text, tmp_path / "out", context_length=24, module=module)
    digest = hashlib.sha256((tmp_path / "out/spec.yaml").read_bytes()).hexdigest()
    assert (tmp_path / "out/spec.yaml").read_text("utf-8") == text
    assert json.loads((tmp_path / "out/archspec.json").read_text())["spec_sha256"] == digest
    for file in ("model.onnx", "logits.onnx"):
        proto = onnx.load(tmp_path / "out" / file, load_external_data=False)
        props = {p.key: p.value for p in proto.metadata_props}
        assert (props["archspec.spec"], props["archspec.spec_sha256"]) == (text, digest)
    assert summary.verification
    assert summary.verification.difference < summary.verification.tolerance
    assert summary.files == {p.name: p.stat().st_size for p in (tmp_path / "out").iterdir()}


def test_python_looks_for_no_garbage_in_a_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the time of a graph of 200,000 nodes went there. It looks again afterwards, whatever became of the export."""
    looked: list[bool] = []

    def saved(*given: object) -> None:
        looked.append(gc.isenabled())
        raise UsageError("no")

    monkeypatch.setattr(export_module.ir, "save", saved)
    model = tiny("gpt2")
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        try:
            with pytest.raises(UsageError):
                export(model, stored(random_module(model)), "x: 1\n", tmp_path / "out", verify=False)
            assert gc.isenabled() is enabled
        finally:
            gc.enable()
    assert looked == [False, False]


def test_companions_come_along(tmp_path: Path) -> None:
    model = tiny("gpt2")
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text("{}")
    weights = stored(random_module(model))
    export(model, weights, "x: 1\n", tmp_path / "out", beside=Beside(companions(tokenizer)), verify=False)
    assert (tmp_path / "out/tokenizer.json").read_text() == "{}"
    export(model, weights, "x: 1\n", tmp_path / "out", overwrite=True, verify=False)
    assert not (tmp_path / "out/tokenizer.json").exists()


def test_a_companion_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    def bring(folder: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/elsewhere/tokenizer.json")

    model = tiny("gpt2")
    with pytest.raises(UsageError, match=r"/elsewhere/tokenizer\.json cannot be read: Permission denied"):
        export(model, stored(random_module(model)), "x: 1\n", tmp_path / "out", beside=Beside(bring), verify=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["gpt2", "experts"])
def test_every_weight_is_read_once(name: str) -> None:
    """Though two graphs hold them."""
    model = tiny(name)
    module = random_module(model)
    read: Counter[str] = Counter()

    def weights(path: str, *rows: int):  # type: ignore[no-untyped-def]
        found = matrix_rows(module.tensor(path).detach().numpy(), *rows)
        read[path] += found.size
        return found

    told: list[float] = []
    out = exported(name).folder.parent / "again"
    export(model, weights, "x: 1\n", out, verify=False, progress=lambda what, share: told.append(share))
    assert read == {t.path: t.size for t in model.tensors()}
    assert told == sorted(told)
    assert told[-1] == 1.0
