"""The same architecture in PyTorch, eager or compiled, with fresh weights: what it costs does not hang on what they are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from archspec.errors import DeviceError
from archspec.exporters.runtime.cuda import card_bytes
from archspec.exporters.runtime.folder import open_folder
from archspec.exporters.torch.cache import StaticCache
from archspec.exporters.torch.module import DTYPES, build

from .engines import START, between, texts

#: Graphs that may be compiled: two for each context.
LENGTHS = 256


class TorchModel:
    """The built module of an export's spec, with a cache that is allocated once.

    compiled: by `torch.compile`, one graph for each length, which is made on the first call.
    """

    def __init__(self, folder: str, device: str, threads: int, dtype: str, compiled: bool) -> None:
        torch.set_num_threads(threads)
        if device == "cuda" and not torch.cuda.is_available():
            raise DeviceError("this PyTorch has no CUDA", "install one that has it, or leave it out: --no-torch")
        before = card_bytes() if device == "cuda" else 0
        start = time.perf_counter()
        opened = open_folder(Path(folder))
        self._net = build(opened.model, opened.spec.init, dtype=dtype, device=device).eval()
        self._call: Any = self._net
        if compiled:
            # Each length has its graph, and past a number of graphs the compiler would go on without compiling.
            torch._dynamo.config.recompile_limit = LENGTHS
            self._call = torch.compile(self._net, fullgraph=True, dynamic=False)
        self._device, self._dtype = device, DTYPES[dtype]
        self._caches: dict[tuple[int, int, int], StaticCache] = {}
        self._load = time.perf_counter() - start
        self._card = card_bytes() - before if device == "cuda" else 0

    def about(self) -> dict[str, Any]:
        """Where it runs, how long it took to build, in seconds, and the bytes of the card that this took. Compiling comes with the
        first call.
        """
        dtype = str(self._dtype).removeprefix("torch.")
        return {"device": self._device, "dtype": dtype, "load_seconds": self._load, "card_bytes": self._card}

    def generate(self, context: int, batch: int, new: int) -> list[float]:
        """As `ExportedFolder.generate`."""
        ids = self._ids(context, batch)
        if self._net.op.form == "encoder_decoder":
            prompt, source = torch.full_like(ids[:, :1], START), ids
        else:
            prompt, source = ids, None
        cache = self._cache(
            batch, prompt.shape[1] + new - 1, 0 if source is None else context
        )  # the last is not read again
        return between(lambda: self._tokens(cache, prompt, source, new))

    def forward(self, length: int, batch: int) -> float:
        """As `ExportedFolder.forward`."""
        ids = self._ids(length, batch)
        given = {"source": ids} if self._net.op.form == "encoder_decoder" else {}
        start = time.perf_counter()
        with torch.no_grad():
            self._call(ids, **given).cpu()
        return time.perf_counter() - start

    def _ids(self, length: int, batch: int) -> Tensor:
        _, stack = self._net.op.main
        return torch.tensor(texts(stack.embedding.vocab, batch, length), device=self._device)

    def _cache(self, batch: int, capacity: int, source: int) -> StaticCache:
        size = batch, capacity, source
        if size not in self._caches:
            self._caches[size] = StaticCache(self._net.op, batch, capacity, self._dtype, self._device, source)
        cache = self._caches[size]
        cache.reset()
        return cache

    @torch.no_grad()
    def _tokens(self, cache: StaticCache, prompt: Tensor, source: Tensor | None, new: int) -> Iterator[list[int]]:
        """Greedy tokens, each on the host before the next is asked for, as a stream of text wants it."""
        given = {} if source is None else {"source": source}
        logits = self._call(prompt, cache=cache, last_only=True, **given)
        for left in range(new, 0, -1):
            ids = logits[:, -1].argmax(-1, keepdim=True)
            yield ids.flatten().tolist()
            if left > 1:
                logits = self._call(ids, cache=cache, last_only=True)
