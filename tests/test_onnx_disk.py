"""A file that is hashed and written by threads of its own: all its bytes, in order, whatever they come in."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from archspec.exporters.onnx import disk
from archspec.exporters.onnx.disk import pouring

PAGE = 4096


@pytest.fixture(params=[0, 1 << 40], ids=["past the page cache", "through the page cache"])
def small_buffers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "BUFFER", PAGE)
    monkeypatch.setattr(disk, "DIRECT", request.param)


@pytest.mark.usefixtures("small_buffers")
@pytest.mark.parametrize("sizes", [[0], [1], [PAGE], [3, PAGE - 3, 5], [9 * PAGE + 1, 0, 7], [1000] * 50])
def test_what_is_written_is_what_was_given(sizes: list[int], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    given = [rng.integers(0, 256, size, np.uint8) for size in sizes]
    with pouring(tmp_path / "x", sum(sizes)) as file:
        for part in given:
            file.write(part)
            part[:] = 0  # it is the caller's again
    rng = np.random.default_rng(0)
    data = b"".join(rng.integers(0, 256, size, np.uint8).tobytes() for size in sizes)
    assert (tmp_path / "x").read_bytes() == data
    assert file.digest.hexdigest() == hashlib.sha256(data).hexdigest()
    assert file.size == len(data)


def test_arrays_are_written_as_they_lie_by_rows(tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.float16).reshape(3, 4)
    with pouring(tmp_path / "x", 48) as file:
        file.write(x.T)
        file.write(x[:, ::2])
    assert (tmp_path / "x").read_bytes() == x.T.tobytes() + x[:, ::2].tobytes()


@pytest.mark.parametrize("says", ["open", "pwrite"])
def test_a_file_system_without_a_way_past_the_cache(says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so when a file is opened, or when it is first written."""
    real: Callable[..., int] = getattr(os, says)
    refused = []

    def refusing(file: Any, *given: Any) -> int:
        flags = given[0] if says == "open" else fcntl.fcntl(file, fcntl.F_GETFL)
        if flags & os.O_DIRECT:
            refused.append(file)
            raise OSError(errno.EINVAL, "no such way")
        return real(file, *given)

    monkeypatch.setattr(os, says, refusing)
    monkeypatch.setattr(disk, "DIRECT", 0)
    with pouring(tmp_path / "x", 3) as file:
        file.write(np.array([1, 2, 3], np.uint8))
    assert refused
    assert (tmp_path / "x").read_bytes() == b"\1\2\3"


@pytest.mark.usefixtures("small_buffers")
def test_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    """The writing thread's refusal reaches the caller."""
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 * PAGE, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"), pouring(tmp_path / "x", 100 * PAGE) as file:
            file.write(np.zeros(100 * PAGE, np.uint8))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
