"""What a machine has for CUDA: the driver, the cards, and the libraries that ONNX Runtime loads, by name."""

from __future__ import annotations

import contextlib
import ctypes
import io
import sys
import warnings
from dataclasses import dataclass
from functools import cache

import onnxruntime

_DRIVER = "libcuda.so.1" if sys.platform.startswith("linux") else "nvcuda.dll"
_CUDA_ERRORS = {
    3: "the driver is not initialised",
    35: "the driver is older than the CUDA runtime",
    46: "the devices are busy or unavailable",
    100: "no CUDA device is visible",
    802: "the system is not ready",
    803: "driver and kernel module have different versions",
    999: "an unknown error",
}


@dataclass(frozen=True, slots=True)
class Library:
    """A shared library that ONNX Runtime's CUDA provider opens, and the wheel on PyPI that holds it."""

    name: str
    wheel: str
    #: Without it the provider does not load; the others are opened by single kernels only.
    required: bool = True


@dataclass(frozen=True, slots=True)
class Driver:
    """NVIDIA's driver as it answers: its CUDA version (13, 0), the cards' names, and what it complains about."""

    version: tuple[int, int] | None = None
    cards: tuple[str, ...] = ()
    fault: str | None = None


def cuda_major() -> int | None:
    """The major CUDA version that the installed onnxruntime was built for; None for a build without CUDA."""
    version = str(getattr(onnxruntime, "cuda_version", "") or "")
    return int(version.split(".")[0]) if version.split(".")[0].isdigit() else None


def libraries(major: int) -> tuple[Library, ...]:
    """What the CUDA provider of a build for CUDA `major` loads on Linux."""
    suffix = "" if major >= 13 else f"-cu{major}"  # NVIDIA dropped the suffix with CUDA 13, cuDNN apart
    return (
        Library(f"libcudart.so.{major}", f"nvidia-cuda-runtime{suffix}"),
        Library(f"libcublasLt.so.{major}", f"nvidia-cublas{suffix}"),
        Library(f"libcublas.so.{major}", f"nvidia-cublas{suffix}"),
        Library("libcurand.so.10", f"nvidia-curand{suffix}"),
        Library("libcudnn.so.9", f"nvidia-cudnn-cu{major}", required=False),
        Library(f"libcufft.so.{major - 1}", f"nvidia-cufft{suffix}", required=False),
    )


def _opens(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


@cache
def preload() -> None:
    """Open the CUDA libraries that pip packages hold, which the system's loader would not find. Once a process."""
    # It reports to stdout what it did not find; what is missing is asked of the loader afterwards, by name.
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        onnxruntime.preload_dlls()


def missing_libraries() -> tuple[Library, ...]:
    """The libraries that cannot be opened here. Empty where the build has no CUDA, and outside Linux, where names differ."""
    major = cuda_major()
    if major is None or not sys.platform.startswith("linux"):
        return ()
    preload()
    return tuple(library for library in libraries(major) if not _opens(library.name))


@cache
def driver() -> Driver:
    """Ask the driver itself, through its C interface; no CUDA toolkit is needed for that."""
    try:
        cuda = ctypes.CDLL(_DRIVER)
    except OSError:
        return Driver(fault=f"{_DRIVER} is missing: no NVIDIA driver is installed")
    number = ctypes.c_int()
    version = None
    if cuda.cuDriverGetVersion(ctypes.byref(number)) == 0 and number.value:
        version = (number.value // 1000, number.value % 1000 // 10)
    code = cuda.cuInit(0)
    if code:
        return Driver(version, fault=f"the NVIDIA driver fails: {_CUDA_ERRORS.get(code, 'cuInit')} (code {code})")
    cuda.cuDeviceGetCount(ctypes.byref(number))
    cards = tuple(_card(cuda, i) for i in range(number.value))
    return Driver(version, cards, None if cards else "no CUDA device is visible")


def _card(cuda: ctypes.CDLL, index: int) -> str:
    handle, name = ctypes.c_int(), ctypes.create_string_buffer(128)
    cuda.cuDeviceGet(ctypes.byref(handle), index)
    cuda.cuDeviceGetName(name, len(name), handle)
    return name.value.decode(errors="replace")


def card_bytes() -> int:
    """Bytes taken of the first card, by whomever, what CUDA itself takes for this process included; 0 where there is no card."""
    free, total = card_memory()
    return total - free


def card_memory() -> tuple[int, int]:
    """(free, all) bytes of the first card; 0 where there is no card."""
    if not driver().cards:
        return 0, 0
    cuda = ctypes.CDLL(_DRIVER)
    context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    cuda.cuCtxSetCurrent(context)
    cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value
