"""Devices: what was asked for, or an error that names what is missing. And doctor, which says the same of the machine."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest

from archspec.errors import ArchspecError, DeviceError, UsageError
from archspec.exporters.runtime import cuda as cuda_module
from archspec.exporters.runtime import device as device_module
from archspec.exporters.runtime.cuda import Driver, cuda_major, libraries, missing_libraries
from archspec.exporters.runtime.device import CPU, CUDA, cuda, live, open_session
from archspec.exporters.runtime.doctor import Fact, doctor
from archspec.exporters.runtime.folder import FolderError

HERE = cuda()
no_gpu = pytest.mark.skipif(HERE.usable, reason="CUDA works here")
gpu = pytest.mark.skipif(not HERE.usable, reason=f"no CUDA: {HERE.why}")


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """The probe's product of two matrices, as a file."""
    (tmp_path / "product.onnx").write_bytes(device_module._PRODUCT)
    return tmp_path / "product.onnx"


@pytest.fixture
def afresh() -> Iterator[None]:
    """The answer about CUDA is kept for the process: forget it around a test that fakes the machine."""
    cuda.cache_clear()
    yield
    cuda.cache_clear()


def test_the_probe_is_a_valid_model(graph: Path) -> None:
    onnx.checker.check_model(onnx.load(graph), full_check=True)
    assert live(CPU) is None


def test_nothing_is_reported_to_anyone(graph: Path, tmp_path: Path) -> None:
    """ONNX Runtime's wheels keep a database of what they are to report in the user's cache."""
    unsaid = ("ORT_DISABLE_TELEMETRY", "ORT_RUNNING_UNIT_TESTS", "CI", "GITHUB_ACTIONS", "XDG_CACHE_HOME")
    home = tmp_path / "home"
    home.mkdir()
    environment = {name: value for name, value in os.environ.items() if name not in unsaid} | {"HOME": str(home)}
    script = f"import archspec.exporters.onnx.twin, onnxruntime as ort; ort.InferenceSession({str(graph)!r})"
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
    assert not list(home.rglob("*"))


def test_cpu_is_cpu(graph: Path) -> None:
    session, report = open_session(graph, "cpu", threads=1)
    assert (report.device, report.providers, report.nodes) == ("cpu", (CPU,), {CPU: 1})
    assert session.get_session_options().intra_op_num_threads == 1


@no_gpu
def test_cuda_is_never_the_cpu_in_silence(graph: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DeviceError, match="CUDA cannot be used") as caught:
        open_session(graph, "cuda")
    assert caught.value.exit_code == 1
    assert HERE.why in str(caught.value)
    if CUDA in onnxruntime.get_available_providers():
        # every library that the loader cannot find is named, and so is a missing driver
        assert all(library.name in HERE.why for library in missing_libraries() if library.required)
        assert missing_libraries() or cuda_module.driver().fault
    else:
        assert "built without CUDA" in HERE.why
    assert capfd.readouterr() == ("", "")  # ONNX Runtime's log would repeat it in its own words


@no_gpu
def test_auto_says_what_it_took_and_why(graph: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _, report = open_session(graph, "auto")
    assert report.device == "cpu"
    assert report.why == f"no CUDA: {HERE.why.split('; ')[0]}"
    assert capfd.readouterr() == ("", "")


@pytest.mark.cuda
@gpu
def test_cuda_is_cuda(graph: Path) -> None:
    for device in ("cuda", "auto"):
        _, report = open_session(graph, device)  # type: ignore[arg-type]
        assert (report.device, report.providers[0], report.nodes) == ("cuda", CUDA, {CUDA: 1})
    assert live(CUDA) is None


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A CUDA that takes no node, as one does that has no kernel for any: it stands first in the session, and all run on the CPU."""
    real = onnxruntime.InferenceSession

    class Claims(real):  # type: ignore[misc, valid-type]
        def __init__(
            self, path: str, options: object, providers: list[str], *rest: object, enable_fallback: int
        ) -> None:
            super().__init__(path, options, [CPU], enable_fallback=enable_fallback)
            self.claimed = providers

        def get_providers(self) -> list[str]:
            return self.claimed

    monkeypatch.setattr(device_module.onnxruntime, "InferenceSession", Claims)
    monkeypatch.setattr(device_module, "cuda", lambda: device_module.Availability(True, "a card"))
    return Claims


def test_a_heavy_node_on_the_cpu_is_an_error(
    graph: Path, claims: type[onnxruntime.InferenceSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DeviceError, match="no kernel for MatMul"):
        open_session(graph, "cuda")
    monkeypatch.setattr(claims, "get_providers", lambda self: [CPU])
    with pytest.raises(DeviceError, match="was to run on CUDAExecutionProvider and runs on CPU"):
        open_session(graph, "cuda")


@pytest.mark.usefixtures("claims")
def test_auto_takes_the_cpu_for_what_cuda_has_no_kernel_for(graph: Path) -> None:
    _, report = open_session(graph, "auto")
    assert (report.device, report.providers) == ("cpu", (CPU,))
    assert report.why == "CUDA has no kernel for MatMul in the precision of product.onnx"


@pytest.mark.parametrize(
    ("told", "kind", "remedy"),
    [
        ("cannot use the graph capture feature as requested", DeviceError, "run it without"),
        ("NOT_IMPLEMENTED : Could not find an implementation for Clip(13)", FolderError, "in another precision"),
        ("Provider type for Less node with name '' is not set.", FolderError, "in another precision"),
        ("INVALID_GRAPH", FolderError, "export the model again"),
    ],
)
def test_a_refusal_says_what_to_do(
    graph: Path, monkeypatch: pytest.MonkeyPatch, told: str, kind: type[ArchspecError], remedy: str
) -> None:
    def refuse(*given: object, **named: object) -> None:
        raise device_module.ort.Fail(told)

    monkeypatch.setattr(onnxruntime, "InferenceSession", refuse)
    with pytest.raises(kind, match=remedy):
        open_session(graph, "cpu")


@pytest.mark.usefixtures("afresh")
def test_a_wheel_without_cuda_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_module.onnxruntime, "get_available_providers", lambda: [CPU])
    monkeypatch.setattr(device_module, "runtime_wheels", lambda: ("onnxruntime",))
    assert "built without CUDA" in cuda().why
    assert cuda().remedy == "pip uninstall -y onnxruntime && pip install onnxruntime-gpu"


@pytest.mark.usefixtures("afresh")
def test_two_wheels_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_module.onnxruntime, "get_available_providers", lambda: [CPU])
    monkeypatch.setattr(device_module, "runtime_wheels", lambda: ("onnxruntime", "onnxruntime-gpu"))
    assert "onnxruntime and onnxruntime-gpu are both installed" in cuda().why
    facts = {fact.name: fact for fact in doctor()}
    assert facts["onnxruntime wheels"].state == "missing"
    assert "pip uninstall -y onnxruntime onnxruntime-gpu" in str(facts["onnxruntime wheels"].remedy)


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize(
    ("driver", "said"),
    [
        (Driver(fault="libcuda.so.1 is missing: no NVIDIA driver is installed"), "no NVIDIA driver"),
        (Driver((11, 8), ("card",)), "the driver is for CUDA 11.8 and onnxruntime wants CUDA 13"),
        (Driver((13, 0), ("card",)), "onnxruntime says: something else"),
    ],
)
def test_the_reason_is_the_part_that_is_missing(monkeypatch: pytest.MonkeyPatch, driver: Driver, said: str) -> None:
    monkeypatch.setattr(device_module.onnxruntime, "get_available_providers", lambda: [CUDA, CPU])
    monkeypatch.setattr(device_module, "driver", lambda: driver)
    monkeypatch.setattr(device_module, "cuda_major", lambda: 13)
    monkeypatch.setattr(device_module, "missing_libraries", lambda: ())
    monkeypatch.setattr(device_module, "live", lambda provider: "something else")
    assert not cuda().usable
    assert said in cuda().why


def test_libraries_are_those_of_the_build() -> None:
    names = {library.name: library.wheel for library in libraries(12)}
    assert names["libcublas.so.12"] == "nvidia-cublas-cu12"
    assert names["libcufft.so.11"] == "nvidia-cufft-cu12"
    assert {library.name: library.wheel for library in libraries(13)}["libcublas.so.13"] == "nvidia-cublas"


@pytest.mark.skipif(cuda_major() is None, reason="this onnxruntime is built without CUDA")
def test_a_missing_library_really_does_not_load() -> None:
    missing = {library.name for library in missing_libraries()}
    for library in libraries(cuda_major() or 0):
        if library.name in missing:
            with pytest.raises(OSError, match=library.name):
                ctypes.CDLL(library.name)
        else:
            ctypes.CDLL(library.name)


@pytest.mark.parametrize(
    ("device", "threads", "said"),
    [
        ("gpu", None, "no device 'gpu'"),
        ("cpu", 0, "0 threads"),
        ("cpu", -1, "-1 threads"),
        ("cpu", 20_000, "more than this"),
    ],
)
def test_devices_that_do_not_exist(graph: Path, device: str, threads: int | None, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        open_session(graph, device, threads)  # type: ignore[arg-type]


def test_a_message_that_is_no_text(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The binding decodes a message that may quote the bytes of a damaged file."""

    def refuse(*given: object, **named: object) -> None:
        b"\xff".decode()

    monkeypatch.setattr(onnxruntime, "InferenceSession", refuse)
    with pytest.raises(FolderError, match="cannot load"):
        open_session(graph, "cpu")


@pytest.mark.parametrize("content", [b"", b"\xff" * 50, None])
def test_files_that_are_no_models(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "x.onnx").write_bytes(content)
    with pytest.raises(FolderError, match="cannot load"):
        open_session(tmp_path / "x.onnx", "cpu")


# -------------------------------------------------------------------------------------------------------------- doctor


def facts() -> dict[tuple[str, str], Fact]:
    return {(fact.topic, fact.name): fact for fact in doctor()}


def test_doctor_tells_this_machine() -> None:
    told = facts()
    assert told["system", "python"].value.startswith(platform.python_version())
    for part in ("torch", "onnx", "numpy", "tokenizers"):
        assert told["packages", part].value == version(part)
    assert told["onnxruntime", "onnxruntime"].value.startswith(onnxruntime.__version__)
    assert told["onnxruntime", CPU] == Fact("onnxruntime", CPU, "works")
    assert (told["onnxruntime", CUDA].state == "ok") == HERE.usable
    assert HERE.why in told["onnxruntime", CUDA].value
    missing = {library.name for library in missing_libraries()}
    assert {name for topic, name in told if topic == "cuda" and name.startswith("lib")} == missing


def test_doctor_says_what_to_do_about_what_is_missing() -> None:
    assert all(fact.remedy for fact in doctor() if fact.state == "missing")


def test_doctor_finds_dot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert facts()["graphviz", "dot"].state == "missing"
    dot = tmp_path / "dot"
    dot.write_text("#!/bin/sh\necho 'dot - graphviz version 9.0' >&2\n")
    dot.chmod(0o755)
    assert facts()["graphviz", "dot"].value == f"graphviz version 9.0 ({dot})"
    dot.write_text("#!/bin/sh\nexit 3\n")
    assert facts()["graphviz", "dot"].state == "missing"
    assert "does not run" in facts()["graphviz", "dot"].value


def test_doctor_says_what_optional_packages_are_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from archspec.exporters.runtime import doctor as doctor_module

    use = ("plays chess", "pip install no-such-part")
    monkeypatch.setattr(doctor_module, "OPTIONAL", {"numpy": use, "no-such-part": use})
    told = facts()
    assert told["optional", "numpy"] == Fact("optional", "numpy", version("numpy"))
    assert told["optional", "no-such-part"] == Fact(
        "optional", "no-such-part", "not installed: it plays chess", "note", "pip install no-such-part"
    )


def test_doctor_sees_a_package_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from archspec.exporters.runtime import doctor as doctor_module

    monkeypatch.setattr(doctor_module, "PARTS", ("no-such-part",))
    assert facts()["packages", "no-such-part"] == Fact(
        "packages", "no-such-part", "not installed", "missing", "pip install no-such-part"
    )
