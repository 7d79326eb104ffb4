"""Sessions on the device that was asked for, and the truth about which one it is.

`onnxruntime.get_available_providers()` lists what a wheel was compiled with; a session that cannot load CUDA's libraries
runs on the CPU with a log line. Only a live session tells, so one is tried, on a product of two small matrices.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as ort

from archspec.errors import ArchspecError, DeviceError, UsageError

from .cuda import cuda_major, driver, missing_libraries, preload
from .folder import FolderError
from .options import session_options

Device = Literal["auto", "cpu", "cuda"]

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
PROVIDERS: Mapping[str, str] = {"cpu": CPU, "cuda": CUDA}

#: What ONNX Runtime raises; the classes have no base of their own.
ORT_ERRORS: tuple[type[Exception], ...] = (
    ort.EPFail,
    ort.EngineError,
    ort.Fail,
    ort.InvalidArgument,
    ort.InvalidGraph,
    ort.InvalidProtobuf,
    ort.NoModel,
    ort.NoSuchFile,
    ort.NotImplemented,
    ort.RuntimeException,
    RuntimeError,  # from the binding layer, as when a provider's library does not load
    UnicodeDecodeError,  # from there as well: a message that quotes a damaged file
)

#: y = x · x as an ONNX file of 68 bytes (IR 10, opset 23).
_PRODUCT = (
    b'\x08\n:D\n\x11\n\x01x\n\x01x\x12\x01y"\x06MatMul\x12\x01gZ\x15\n\x01x\x12\x10\n\x0e\x08\x01\x12\n\n\x03\x12\x01n'
    b"\n\x03\x12\x01nb\x15\n\x01y\x12\x10\n\x0e\x08\x01\x12\n\n\x03\x12\x01n\n\x03\x12\x01nB\x04\n\x00\x10\x17"
)

#: Operations whose place decides the speed. Small ones that compute shapes stay on the CPU by the provider's own choice.
_HEAVY = ("MatMul", "Gemm", "Attention", "GroupQueryAttention", "MultiHeadAttention", "MatMulNBits", "MoE", "QMoE")

#: By default the provider rounds float32 products to 10 bits of mantissa (TF32), and tokens then differ from the CPU's.
_SETTINGS: Mapping[str, dict[str, str]] = {CUDA: {"use_tf32": "0"}}

_WARNING, _FATAL = 2, 4


class RunError(ArchspecError):
    """ONNX Runtime could not compute a call: out of memory, or numbers that the graph does not take."""


def run(session: onnxruntime.InferenceSession, binding: Any, options: onnxruntime.RunOptions | None = None) -> None:
    """Run what is bound. Raises RunError."""
    try:
        session.run_with_iobinding(binding, options)
    except ORT_ERRORS as error:
        raise RunError(f"ONNX Runtime failed: {str(error).splitlines()[0]}") from error


def demand_threads(threads: int | None) -> None:
    """Raises UsageError for a number of threads that this machine does not have."""
    cores = os.cpu_count() or 1
    if threads is not None and threads < 1:
        raise UsageError(f"{threads} threads cannot run anything", "threads must be at least 1")
    if threads is not None and threads > cores:
        raise UsageError(f"{threads} threads are more than this machine's {cores} cores", f"say at most {cores}")


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """Where a session runs, as the live session says."""

    device: Literal["cpu", "cuda"]
    #: Why this one, in a few words for the person at the terminal.
    why: str
    #: The session's providers in order of precedence.
    providers: tuple[str, ...]
    #: Provider -> how many of the graph's nodes it runs.
    nodes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Availability:
    """Can a provider really run something here, and if not, why not and what to do?"""

    usable: bool
    why: str
    remedy: str | None = None

    @property
    def foremost(self) -> str:
        """Of several reasons the first, without which the others do not matter yet."""
        return self.why.partition("; ")[0]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep ONNX Runtime's log off stderr while a failure is an answer and not an error."""
    onnxruntime.set_default_logger_severity(_FATAL)
    try:
        yield
    finally:
        onnxruntime.set_default_logger_severity(_WARNING)


def runtime_wheels() -> tuple[str, ...]:
    """The installed distributions that hold the import package onnxruntime; more than one overwrite each other's files."""
    return tuple(sorted(set(importlib.metadata.packages_distributions().get("onnxruntime", ()))))


def live(provider: str) -> str | None:
    """Run the product of two matrices on `provider` and nothing else. None if it ran, or ONNX Runtime's reason."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL
    if provider != CPU:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    with _quiet():
        try:
            session = onnxruntime.InferenceSession(_PRODUCT, options, providers=[provider], enable_fallback=0)
            session.run(None, {"x": [[2.0]]})
        except ORT_ERRORS as error:
            return str(error).splitlines()[0]
    return None


@cache
def cuda() -> Availability:
    """Can CUDA be had? Tried once a process; the reason names the missing library, driver, card or wheel."""
    version = onnxruntime.__version__
    if CUDA not in onnxruntime.get_available_providers():
        wheels = runtime_wheels()
        if len(wheels) > 1:
            return Availability(
                False,
                f"the wheels {' and '.join(wheels)} are both installed and overwrite each other; the last one has no CUDA",
                f"pip uninstall -y {' '.join(wheels)} && pip install onnxruntime-gpu",
            )
        return Availability(
            False,
            f"the installed onnxruntime {version} is built without CUDA",
            "pip uninstall -y onnxruntime && pip install onnxruntime-gpu",
        )
    preload()
    reason = live(CUDA)
    return Availability(True, _cards()) if reason is None else _why_not(reason)


def _cards() -> str:
    return ", ".join(driver().cards) or "a CUDA device"


def _why_not(reason: str) -> Availability:
    """The parts that are missing, the driver first: without it no library helps."""
    faults, remedies = [], []
    major = cuda_major() or 0
    state = driver()
    if state.fault:
        faults.append(state.fault)
        remedies.append(f"install an NVIDIA driver for CUDA {major} on a machine with an NVIDIA card")
    elif state.version and state.version[0] < major:
        faults.append(f"the driver is for CUDA {'.'.join(map(str, state.version))} and onnxruntime wants CUDA {major}")
        remedies.append("install a newer NVIDIA driver")
    missing = [library for library in missing_libraries() if library.required]
    if missing:
        faults.append(f"missing libraries: {', '.join(library.name for library in missing)}")
        remedies.append('pip install "onnxruntime-gpu[cuda,cudnn]"')
    if not faults:
        faults.append(f"onnxruntime says: {reason}")
    return Availability(False, "; ".join(faults), "\n".join(remedies) or None)


def open_session(
    path: Path,
    device: Device = "auto",
    threads: int | None = None,
    *,
    profile: Path | None = None,
    cuda_graph: bool = False,
) -> tuple[onnxruntime.InferenceSession, DeviceReport]:
    """Load the ONNX file `path` on `device`.

    `cuda` means CUDA: the heavy nodes run there or this raises DeviceError with what is missing. `auto` takes CUDA where it
    works and has kernels for them all, and the CPU otherwise; the report says which and why. `threads`: of one operation on the
    CPU; None: one a core.
    `profile`: how the file begins that `end_profiling` writes, with every node that ran. `cuda_graph`: runs may be recorded.
    Raises FolderError for a file that ONNX Runtime cannot load, UsageError for another device name or thread count.
    """
    if device not in get_args(Device):
        raise UsageError(f"there is no device {device!r}", "say auto, cpu or cuda")
    demand_threads(threads)
    if device == "cpu" and not cuda_graph:
        return _open(path, [CPU], threads, "asked for", profile)
    state = cuda()
    demanded = device == "cuda" or cuda_graph
    if not state.usable:
        if demanded:
            raise DeviceError(f"CUDA cannot be used: {state.why}", state.remedy)
        return _open(path, [CPU], threads, f"no CUDA: {state.foremost}", profile)
    try:
        return _open(path, [CUDA, CPU], threads, state.why, profile, cuda_graph)
    except DeviceError as error:
        if demanded:
            raise
        return _open(path, [CPU], threads, error.message, profile)


def _open(
    path: Path, providers: list[str], threads: int | None, why: str, profile: Path | None, cuda_graph: bool = False
) -> tuple[onnxruntime.InferenceSession, DeviceReport]:
    options = session_options(path)  # no warnings: they are about shape nodes that belong on the CPU
    options.intra_op_num_threads = threads or 0
    if profile is not None:
        options.enable_profiling, options.profile_file_prefix = True, str(profile)
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    try:
        settings = [dict(_SETTINGS.get(name, {})) for name in providers]
        if cuda_graph:
            settings[0]["enable_cuda_graph"] = "1"
        session = onnxruntime.InferenceSession(path, options, providers, settings, enable_fallback=0)
    except ORT_ERRORS as error:
        raise _refused(path, str(error).splitlines()[0]) from error
    placed = [(s.ep_name, node) for s in session.get_provider_graph_assignment_info() for node in s.get_nodes()]
    got = session.get_providers()
    if got[0] != providers[0]:
        raise DeviceError(f"{path} was to run on {providers[0]} and runs on {got[0]}")
    stray = sorted({node.op_type for name, node in placed if name != providers[0] and node.op_type in _HEAVY})
    if stray:
        raise DeviceError(
            f"CUDA has no kernel for {' and '.join(stray)} in the precision of {path.name}",
            "export with --precision fp16 or bf16, or with --compute fp16 beside int8 and int4; or run it on the CPU",
        )
    nodes = Counter(name for name, _ in placed)
    return session, DeviceReport("cuda" if got[0] == CUDA else "cpu", why, tuple(got), dict(nodes))


def _refused(path: Path, told: str) -> ArchspecError:
    """What ONNX Runtime's refusal to load a graph means for whoever wanted to run it."""
    if "graph capture" in told:
        return DeviceError(
            f"the steps of {path} cannot be recorded as a CUDA graph: a part of each runs on the CPU, or on a condition",
            "run it without",
        )
    # the second: what it says where neither CUDA nor the CPU takes a node
    kernel = "NOT_IMPLEMENTED" in told or "Provider type for" in told
    return FolderError(
        f"ONNX Runtime cannot load {path}: {told}",
        "it has no such kernel here (of bfloat16 on CUDA only): export in another precision, or run it on CUDA"
        if kernel
        else "export the model again",
    )
