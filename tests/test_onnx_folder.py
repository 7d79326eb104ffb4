"""An export is there whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnxruntime as ort
import pytest
from onnx_cases import random_module, stored, write
from tiny import text, tiny

import archspec
from archspec.compiler.precision import Precision
from archspec.errors import UsageError, VerificationError
from archspec.exporters.onnx import folder as folders
from archspec.exporters.onnx import sidecar
from archspec.exporters.onnx.export import export
from archspec.exporters.onnx.folder import atomic_folder
from archspec.exporters.weights.folder import write_folder

TINY_GPT2 = ("decoder.layers=1", "d_model=32", "decoder.attention.heads=2", "vocab_size=64", "expect=none")


def test_an_earlier_export_is_replaced_only_when_told(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, fill=1.0)
    before = (out / "model.onnx.data").read_bytes()
    with pytest.raises(UsageError, match="earlier export"):
        write(out)
    assert (out / "model.onnx.data").read_bytes() == before
    write(out, overwrite=True, fill=2.0)
    assert (out / "model.onnx.data").read_bytes() != before
    assert os.listdir(tmp_path) == ["out"]


def test_what_is_not_an_export_is_never_replaced(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    file = tmp_path / "file"
    file.write_text("x")
    for out, reason in ((other, "no export"), (file, "is a file"), (file / "out", "part of the path is a file")):
        with pytest.raises(UsageError, match=reason) as error:
            write(out, overwrite=True)
        assert error.value.exit_code == 2
    write(tmp_path / "out")
    (tmp_path / "out/notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"did not write: notes\.txt"):
        write(tmp_path / "out", overwrite=True)
    assert (tmp_path / "out/notes.txt").read_text() == "mine"
    assert (other / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize(("out", "reason"), [("/", "the root"), ("/proc/x", "no folder"), ("/proc/x/y", "no folder")])
def test_where_no_folder_can_be(out: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        write(Path(out))


def test_an_empty_folder_a_new_parent_and_a_link_are_fine(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write(tmp_path / "empty")
    write(tmp_path / "a/b/c")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    write(tmp_path / "link")
    for name in ("empty", "a/b/c", "there"):
        ort.InferenceSession(tmp_path / name / "model.onnx", providers=["CPUExecutionProvider"])


def test_a_failed_verification_leaves_nothing(tmp_path: Path) -> None:
    model = tiny("gpt2")
    weights = stored(random_module(model))
    with pytest.raises(VerificationError) as error:
        export(model, weights, "x: 1\n", tmp_path / "out", module=random_module(model, seed=1))
    assert error.value.exit_code == 70
    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("archspec.exporters.onnx.export.write_weights", full)
    with pytest.raises(UsageError, match="the disk is full"):
        write(tmp_path / "out")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_device_is_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's own refusal, in the middle of a write."""
    monkeypatch.setattr(sidecar, "SIDECAR", "/dev/full")
    with pytest.raises(UsageError, match="the disk is full"):
        write(tmp_path / "out")
    assert os.listdir(tmp_path) == []


def test_the_room_that_is_kept_free_is_counted_aloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimpleNamespace(total=1 << 30, used=1 << 30, free=60 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: disk)
    with pytest.raises(UsageError, match=r"64\.0 MiB are kept free beside them, and 60\.0 MiB are free"):
        write(tmp_path / "out")


def test_a_full_disk_ends_a_build_in_the_same_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="out: the disk is full") as error:
        write_folder(archspec.load("gpt2", TINY_GPT2), tmp_path / "out")
    assert error.value.remedy == "free some space, or choose another disk"
    assert os.listdir(tmp_path) == []


def test_an_export_is_not_taken_for_a_model_with_weights(tmp_path: Path) -> None:
    """Its spec would give fresh ones, which nobody means who names a folder of trained ones."""
    archspec.load("gpt2", TINY_GPT2).export(tmp_path / "out", verify=False)
    again = archspec.load(str(tmp_path / "out"))
    assert again.count().parameters.total > 0
    for make in (lambda: again.export(tmp_path / "more"), again.build, lambda: write_folder(again, tmp_path / "more")):
        with pytest.raises(UsageError, match="out is an export, whose weights are not read back") as error:
            make()
        assert str(tmp_path / "out/spec.yaml") in str(error.value.remedy)
    again.export(tmp_path / "graph", graph_only=True)
    archspec.load(str(tmp_path / "out/spec.yaml")).export(tmp_path / "fresh", verify=False)
    assert sorted(os.listdir(tmp_path)) == ["fresh", "graph", "out"]


def test_no_permission_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Path, *args: object, **options: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(UsageError, match="permission is denied"), atomic_folder(tmp_path / "out"):
        pytest.fail("a folder was given")


def test_a_swap_that_was_cut_in_half_is_undone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, fill=1.0)
    before = (out / "model.onnx.data").read_bytes()
    out.rename(tmp_path / ".out.archspec-previous")
    with pytest.raises(UsageError, match="earlier export"):
        write(out)
    assert (out / "model.onnx.data").read_bytes() == before


def test_leavings_of_the_dead_are_cleared_and_those_of_the_living_kept(tmp_path: Path) -> None:
    stale = tmp_path / ".out.archspec-0123abcd"
    stale.mkdir()
    (stale / "model.onnx.data").write_bytes(b"half")
    with atomic_folder(tmp_path / "out") as one:
        assert not stale.exists()
        (one / "kept").write_text("1")
        with atomic_folder(tmp_path / "out") as two:
            assert (one / "kept").exists()
            assert one != two
            (two / "archspec.json").write_text(json.dumps({"archspec_export": 1, "files": []}))
        (tmp_path / "out/archspec.json").unlink()
    assert os.listdir(tmp_path) == ["out"]
    assert os.listdir(tmp_path / "out") == ["kept"]


def test_names_with_pattern_characters_are_names(tmp_path: Path) -> None:
    neighbour = tmp_path / ".outa.archspec-0123abcd"
    neighbour.mkdir()
    write(tmp_path / "out[a]")
    assert sorted(os.listdir(tmp_path)) == [neighbour.name, "out[a]"]
    assert folders.exported_files(tmp_path / "out[a]")


#: Forks a child that replaces an export over and over, kills it after a random time, says so, and waits for a line.
KILLER = """
import os, random, signal, sys, time
from pathlib import Path
from onnx_cases import write
out, moments = Path(sys.argv[1]), random.Random(0)
while True:
    start = time.monotonic()
    write(out, overwrite=True, fill=1.0)
    once = time.monotonic() - start  # anew each time: the machine may be busier by then
    child = os.fork()
    for turn in range(2, 1000) if child == 0 else ():
        write(out, overwrite=True, fill=float(turn))
    time.sleep(moments.random() * 3 * once)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print("killed", flush=True)
    if not sys.stdin.readline():
        break
"""


def test_a_kill_at_any_moment_leaves_a_whole_export_or_none(tmp_path: Path) -> None:
    """A process that replaces an export over and over is killed at 30 random moments.

    In the export number n every weight is n, norms, tables and all: a mixture of two would show.
    """
    out, found, cut = tmp_path / "out", set(), 0
    path = [str(Path(__file__).parent), *(p for p in sys.path if p)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", KILLER, out]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as killer:
        assert killer.stdin
        assert killer.stdout
        for _ in range(30):
            assert killer.stdout.readline() == "killed\n"
            cut += len(os.listdir(tmp_path)) > 1
            if out.exists():
                found.add(whole(out))
            killer.stdin.write("on\n")
            killer.stdin.flush()
        killer.stdin.close()
    assert len(found) > 1, "no export was ever replaced"
    assert cut > 5, "hardly a write was ever cut"
    write(out, overwrite=True)
    assert os.listdir(tmp_path) == ["out"]


KILLED = """
import os, signal, sys
import archspec, archspec.exporters.onnx.export as module

module.emit = lambda *given, **named: os.kill(os.getpid(), signal.SIGKILL)
archspec.load(sys.argv[1]).export(sys.argv[2])
"""


def test_a_killed_export_leaves_nothing_among_temporary_files(tmp_path: Path) -> None:
    """What it makes stands beside its place, where the next one clears it away."""
    spec, temporary = tmp_path / "spec.yaml", tmp_path / "temporary"
    spec.write_text(text("gpt2"))
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", KILLED, spec, tmp_path / "out"], env=environment)
    assert done.returncode == -signal.SIGKILL
    assert not list(temporary.iterdir())


def whole(out: Path) -> float:
    """The number that every weight of an export is; fails unless all of it is there and loads."""
    manifest = json.loads((out / "archspec.json").read_text())
    assert sorted([*manifest["files"], "archspec.json"]) == sorted(os.listdir(out))
    values = np.unique(np.fromfile(out / "model.onnx.data", np.float32))
    (value,) = values[values != 0]  # zeros stand between tensors
    for file in ("model.onnx", "logits.onnx"):
        ort.InferenceSession(out / file, providers=["CPUExecutionProvider"])
    return float(value)


def test_weights_that_do_not_fit_on_the_disk_are_refused_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=10**7))
    with pytest.raises(UsageError, match=r"are free on that disk"):
        write(tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_budget_or_a_target_that_is_none_is_refused(tmp_path: Path) -> None:
    model = tiny("gpt2")
    weights = stored(random_module(model))
    for said in ({"target": "ortt"}, {"budget": float("nan")}, {"budget": -1.0}):
        with pytest.raises(UsageError):
            export(model, weights, "x: 1\n", tmp_path / "out", precision=Precision("fp16"), **said)  # type: ignore[arg-type]
