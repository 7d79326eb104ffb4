"""A step of one token in which no shape and no address changes, as a captured CUDA graph wants it.

The mask is as wide as the buffers are long, with 0 for what is still to come; tokens, mask and logits have one place each on the
device. The first such step is recorded with all its kernels, and those after it are started by a single call.

To record a step ONNX Runtime runs it several times. Rows of keys and values are then written where they stand already, but a window
that is full moves by a row each time: it is kept beforehand, and put back for the step that counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from .cache import ELEMENTS, Buffer, Value, moved, ports
from .device import run

#: ONNX Runtime's name for which recording a run belongs to; -1 is none.
GRAPH = "gpu_graph_id"
_numbers = count(1)


def unrecorded() -> onnxruntime.RunOptions:
    """A run of a session with recording switched on that is not recorded: a prompt, whose length is its own."""
    return _options(-1)


def replayable(session: onnxruntime.InferenceSession) -> bool:
    """May steps of this graph be recorded? Every cache must be a buffer, and the head must give one row a text."""
    caches = list(ports(session, "cpu"))
    rows = session.get_outputs()[0].shape[1]
    typed = any(i.name == "token_type_ids" for i in session.get_inputs())
    return bool(caches) and all(cache.buffered for cache in caches) and rows == 1 and not typed


class Replay:
    """The steps of one batch whose caches are all buffers. Its recording goes with it."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        device: str,
        batch: int,
        buffers: Sequence[Buffer],
        fixed: Mapping[str, Value],
        room: int,
    ) -> None:
        self._session, self._binding, self._number = session, session.io_binding(), next(_numbers)
        self._options = _options(self._number) if device == "cuda" else None
        #: Columns of the mask.
        self.room = room
        output = session.get_outputs()[0]
        vocab = output.shape[-1]
        value = onnxruntime.OrtValue.ortvalue_from_numpy
        self._ids = value(np.zeros((batch, 1), np.int64), device)
        self._mask = value(np.zeros((batch, self.room), np.int64), device)
        self._logits = value(np.zeros((batch, 1, vocab), ELEMENTS[output.type][1]), device)
        #: Until it is recorded.
        self._windows: Sequence[Buffer] | None = [b for b in buffers if b.port.window]
        for buffer in buffers:
            buffer.bind(self._binding)
        for name, given in {"input_ids": self._ids, "attention_mask": self._mask, **fixed}.items():
            self._binding.bind_ortvalue_input(name, given)
        self._binding.bind_ortvalue_output(output.name, self._logits)

    def step(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[Any]:
        """B 1 ids and the mask so far -> B 1 V."""
        wide = np.zeros((len(ids), self.room), np.int64)
        wide[:, : mask.shape[1]] = mask
        self._ids.update_inplace(np.ascontiguousarray(ids))
        self._mask.update_inplace(wide)
        if self._windows is not None:
            self._record(self._windows)
            self._windows = None
        run(self._session, self._binding, self._options)
        logits: NDArray[Any] = self._logits.numpy()
        return logits

    def _record(self, windows: Sequence[Buffer]) -> None:
        kept = [moved(buffer.port, buffer.value) for buffer in windows]
        run(self._session, self._binding, self._options)
        for buffer, value in zip(windows, kept, strict=True):
            back = buffer.value
            place = back.device_name(), 0, back.element_type(), back.shape(), back.data_ptr()
            moved(buffer.port, value, into=place)

    def __del__(self) -> None:
        self._session.release_captured_graph(self._number)


def _options(number: int) -> onnxruntime.RunOptions:
    options = onnxruntime.RunOptions()
    options.add_run_config_entry(GRAPH, str(number))
    return options
