"""What is measured: the exported folder, PyTorch, and the machine itself. Run as a program, it serves one of them.

An engine has `generate`, the seconds of each token, the first one with its prompt; or `forward`, those of a whole text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from archspec.errors import ArchspecError
from archspec.exporters.room import free_memory
from archspec.exporters.runtime.cuda import card_bytes, card_memory
from archspec.exporters.runtime.device import Device
from archspec.exporters.runtime.session import Runtime

from .remote import serve

#: The token that an answer beside an encoder begins with: any one, it is the time that is measured.
START = 0


def texts(vocab: int, batch: int, length: int) -> list[list[int]]:
    """Rows of random tokens: the same ones for every engine."""
    rows: list[list[int]] = np.random.default_rng(0).integers(vocab, size=(batch, length)).tolist()
    return rows


def between(begin: Callable[[], Iterable[Any]]) -> list[float]:
    """Seconds from the beginning to the first item, and from each to the next. `begin` counts: it may read a source."""
    at = [time.perf_counter()]
    for _ in begin():
        at.append(time.perf_counter())
    return [b - a for a, b in pairwise(at)]


class ExportedFolder:
    """An export on ONNX Runtime, through archspec's own runtime: what `archspec run` does.

    recorded: its steps are a CUDA graph.
    """

    def __init__(self, folder: str, device: Device, threads: int, recorded: bool = False) -> None:
        before = 0 if device == "cpu" else card_bytes()
        start = time.perf_counter()
        self._runtime = Runtime.load(folder, device, threads, cuda_graph=recorded)
        self._load = time.perf_counter() - start
        self._card = card_bytes() - before if self._runtime.device.device == "cuda" else 0

    def about(self) -> dict[str, Any]:
        """Where it runs, how long it took to load, in seconds, and the bytes of the card that this took."""
        report = self._runtime.device
        return {
            "device": report.device, "why": report.why, "nodes": dict(report.nodes), "load_seconds": self._load,
            "card_bytes": self._card,
        }  # fmt: skip

    def free(self) -> int | None:
        """Bytes that are free where it runs; None where nothing says so."""
        return card_memory()[0] if self._runtime.device.device == "cuda" else free_memory()

    def recordable(self) -> bool:
        """May its steps be a CUDA graph?"""
        return self._runtime.recordable

    def generate(self, context: int, batch: int, new: int) -> list[float]:
        """Greedily after `context` tokens, or beside a source of so many."""
        rows = texts(self._runtime.spec.vocab_size, batch, context)
        beside = self._runtime.form == "encoder_decoder"
        prompts, source = ([[START]] * batch, rows) if beside else (rows, None)
        return between(lambda: self._runtime.generate(prompts, source=source, max_new_tokens=new, stop=()))

    def forward(self, length: int, batch: int) -> float:
        """A whole text, and a source of that length where there is an encoder beside."""
        rows = texts(self._runtime.spec.vocab_size, batch, length)
        source = rows if self._runtime.form == "encoder_decoder" else None
        start = time.perf_counter()
        self._runtime.forward(rows, source=source)
        return time.perf_counter() - start


def torch_model(**options: Any) -> Any:
    """`exporters.bench.pytorch.TorchModel`; PyTorch is loaded where it is wanted only."""
    from .pytorch import TorchModel

    return TorchModel(**options)


def machine(**options: Any) -> Any:
    """`exporters.bench.probes.Machine`."""
    from .probes import Machine

    return Machine(**options)


ENGINES: dict[str, Callable[..., Any]] = {"folder": ExportedFolder, "torch": torch_model, "machine": machine}

if __name__ == "__main__":
    serve(ENGINES, (ArchspecError, MemoryError))
