"""Where nodes ran: counted in a run, and the same for a reader at the terminal."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from exported import exported
from tiny import text

from archspec.api import load
from archspec.cli.doctor import command
from archspec.errors import UsageError
from archspec.exporters.bench.processes import Process
from archspec.exporters.onnx.apart import Apart
from archspec.exporters.runtime.cache import ELEMENTS
from archspec.exporters.runtime.device import CPU
from archspec.exporters.runtime.folder import open_folder
from archspec.exporters.runtime.placement import _read, _some, placements


@pytest.mark.parametrize(
    ("name", "graphs"),
    [("llama", ["model.onnx"]), ("seq2seq", ["encoder.onnx", "decoder.onnx"]), ("bert", ["model.onnx"])],
)
def test_every_node_has_a_place(name: str, graphs: list[str], tmp_path: Path) -> None:
    exported(text(name), tmp_path / "model", target="ort")
    found = placements(open_folder(tmp_path / "model"), "cpu")
    assert sorted(p.graph for p in found) == sorted(graphs)
    for place in found:
        assert list(place.nodes) == [CPU]
        assert place.copies == 0
    if name == "llama":
        assert found[0].nodes[CPU]["GroupQueryAttention"] == 3  # its layers
    done = CliRunner().invoke(command, [str(tmp_path / "model"), "--device", "cpu"])
    assert f"{CPU}: {sum(found[0].nodes[CPU].values())} nodes a step" in done.output
    assert "copies between devices a step: 0" in done.output


def test_without_a_place_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a profile, what an engine says, what PyTorch's process says: the error says where to name one. An export needs none."""
    exported(text("bert"), tmp_path / "model")
    (tmp_path / "bert.yaml").write_text(text("bert"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "nowhere")])
    asking: list[Callable[[], object]] = [
        lambda: placements(open_folder(tmp_path / "model"), "cpu"),
        lambda: Process("true", ["true"]),
        Apart,
    ]
    for ask in asking:
        with pytest.raises(UsageError, match=r"no place for temporary files.*nowhere") as caught:
            ask()
        assert "TMPDIR" in str(caught.value.remedy)
    load(tmp_path / "bert.yaml").export(tmp_path / "other", verify=False)
    assert (tmp_path / "other").exists()


def test_copies_are_told_from_nodes_and_only_the_last_call_counts() -> None:
    def node(at: int, provider: str, kind: str) -> dict[str, object]:
        args = {"provider": provider, "op_name": kind}
        return {"cat": "Node", "name": f"{kind}_kernel_time", "ts": at, "dur": 1, "args": args}

    runs = [{"cat": "Session", "name": "model_run", "ts": at, "dur": 10} for at in (0, 100)]
    early = [node(3, "CUDAExecutionProvider", "MemcpyToHost"), node(4, CPU, "MatMul")]
    late = [
        node(101, "CUDAExecutionProvider", "MemcpyFromHost"),
        node(103, "CUDAExecutionProvider", "MatMul"),
        node(105, CPU, "Shape"),
    ]
    place = _read("model.onnx", [*early, runs[0], *late, runs[1]])
    assert place.nodes == {"CUDAExecutionProvider": {"MatMul": 1}, CPU: {"Shape": 1}}
    assert place.copies == 1


@pytest.mark.parametrize("element", [*ELEMENTS, "tensor(int64)"])
def test_an_input_of_any_type_is_given_something(element: str) -> None:
    value = _some(SimpleNamespace(shape=["batch", 2, "past", 4], type=element))
    assert value.data_type() == element
    assert value.shape() == [1, 2, 3, 4]


def test_a_device_needs_a_folder() -> None:
    assert isinstance(CliRunner().invoke(command, ["--device", "cpu"]).exception, UsageError)
