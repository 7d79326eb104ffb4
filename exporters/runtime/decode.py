"""Step by step through a text on ONNX Runtime, with the caches held where the model runs.

Letters: B rows of a batch, T new tokens of a call, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from .cache import ELEMENTS, GROWTH, Growing, Value, buffers, place, ports
from .device import run
from .replay import Replay, unrecorded

Array = NDArray[Any]
Integers = NDArray[np.int64]


def host(array: Array) -> Value:
    """An array as a value of ONNX Runtime, without a copy."""
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))


def run_bound(
    session: onnxruntime.InferenceSession, inputs: Mapping[str, Value], outputs: Mapping[str, str]
) -> dict[str, Value]:
    """Run with values bound by name; `outputs` says on which device (`cpu`, `cuda`) each output is wanted."""
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, value)
    for name, device in outputs.items():
        binding.bind_output(name, device)
    run(session, binding)
    return dict(zip(outputs, binding.get_outputs(), strict=True))


class Decoding:
    """The state of one batch in the making: its mask and its caches. Dropping the object frees them.

    fixed: inputs that stay as they are: the encoder's keys and values, the source's mask, the prefix lengths.
    room: columns that are expected; buffers are made so long, and longer ones where that was too few.
    context: columns that there can be, and tables by position have rows for; None: there is no telling.
    recorded: steps of one token are a CUDA graph, in a session that was opened for it (`replayable` says which graphs can be).
    """

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        device: str,
        batch: int,
        fixed: Mapping[str, Value] | None = None,
        room: int = 1,
        *,
        context: int | None = None,
        recorded: bool = False,
    ) -> None:
        self._session, self._fixed = session, dict(fixed or {})
        self._mask = np.zeros((batch, 0), np.int64)
        #: Columns that every buffer has a row for.
        self._room = room
        found = list(ports(session, device))
        self._buffers = buffers([port for port in found if port.buffered], batch, room)
        self._growing = [Growing(port, batch) for port in found if not port.buffered]
        self._binding = session.io_binding()
        self._result = session.get_outputs()[0].name
        self._place = _fixed_result(session, batch)
        for buffer in self._buffers:
            buffer.bind(self._binding)
        if self._place is not None:
            self._binding.bind_ortvalue_output(self._result, host(self._place))
        for name, value in self._fixed.items():
            self._binding.bind_ortvalue_input(name, value)
        self._typed = "token_type_ids" in {i.name for i in session.get_inputs()}
        self._options = unrecorded() if recorded and device == "cuda" else None
        self._recorded, self._device, self._context = recorded, device, context
        self._replay: Replay | None = None

    @property
    def held(self) -> dict[str, int]:
        """Rows that each cache holds or has room for, by its input's name."""
        return {b.port.past: b.rows for b in self._buffers} | {g.port.past: g.rows for g in self._growing}

    def step(self, ids: Integers, mask: Integers, types: Integers | None = None) -> Array:
        """B T ids and their mask (1 a token, 0 padding before a row's first one) -> what the head gives: B T V, or B 1 V where
        the graph gives the last token's alone. types: B T, where the model has token types; None: the first.

        The result shares memory with ONNX Runtime: read it before the next step or copy it.
        """
        first = not self._mask.shape[1]
        self._mask = np.concatenate([self._mask, mask], axis=1)
        if self._mask.shape[1] > self._room:
            self._grow(self._mask.shape[1])
        if self._recorded and not first and ids.shape[1] == 1:
            return self._replayed(ids)
        several, even = ids.shape[1] > 1, bool(mask.all())
        if self._buffers and several and not (even and (first or len(ids) == 1)):
            return self._row_by_row(ids, mask, types)
        return self._whole(ids, types)

    def _replayed(self, ids: Integers) -> Array:
        if self._replay is None:
            self._replay = Replay(self._session, self._device, len(ids), self._buffers, self._fixed, self._room)
        return self._replay.step(ids, self._mask)

    def _grow(self, columns: int) -> None:
        self._replay = None  # buffers move
        enough = GROWTH * columns
        if self._context is not None:
            enough = max(columns, min(enough, self._context))
        for buffer in self._buffers:
            if buffer.reach(columns, enough):
                buffer.bind(self._binding)
        # windows take any number of columns: then as many as a buffer would have grown to, so that a recording lasts
        self._room = min((b.rows for b in self._buffers if not b.port.window), default=enough)

    def retire(self, rows: Sequence[int]) -> None:
        """Make these rows padding from end to end: whatever they are fed from now on, no position of theirs grows."""
        self._mask[list(rows)] = 0

    def _whole(self, ids: Integers, types: Integers | None) -> Array:
        if self._place is None:
            self._binding.bind_output(self._result, "cpu")
        for cache in self._growing:
            cache.bind(self._binding)
        self._call(self._binding, ids, self._mask, types)
        if self._growing:
            for cache, value in zip(self._growing, self._given(self._binding), strict=True):
                cache.take(value)
        return self._read(self._binding) if self._place is None else self._place

    def _row_by_row(self, ids: Integers, mask: Integers, types: Integers | None) -> Array:
        """Each row's tokens in a call of their own: fused attention takes no padding, and with a past no second row."""
        before = self._mask.shape[1] - ids.shape[1]
        logits: Array | None = None
        for row in np.flatnonzero(mask.any(axis=1)).tolist():
            binding = self._session.io_binding()
            for buffer in self._buffers:
                buffer.bind_row(binding, row)
            binding.bind_output(self._result, "cpu")
            for cache in self._growing:
                cache.bind_row(binding, row)
            for name, value in self._fixed.items():
                binding.bind_input(name, *place(value, row))
            tokens = np.flatnonzero(mask[row])
            columns = np.r_[0:before, before + tokens]
            one_type = None if types is None else types[row : row + 1, tokens]
            self._call(binding, ids[row : row + 1, tokens], self._mask[row : row + 1, columns], one_type)
            for cache, value in zip(self._growing, self._given(binding), strict=True):
                cache.apart[row] = value
            one = self._read(binding)
            if logits is None:
                rows = ids.shape[1] if self._place is None else 1
                logits = np.zeros((len(ids), rows, *one.shape[2:]), one.dtype)
            logits[row, -one.shape[1] :] = one[0]
        for cache in self._growing:
            cache.join(len(ids), ids.shape[1])
        assert logits is not None
        return logits

    def _call(self, binding: Any, ids: Integers, mask: Integers, types: Integers | None) -> None:
        binding.bind_cpu_input("input_ids", np.ascontiguousarray(ids))
        binding.bind_cpu_input("attention_mask", np.ascontiguousarray(mask))
        if self._typed:
            binding.bind_cpu_input(
                "token_type_ids", np.zeros_like(ids) if types is None else np.ascontiguousarray(types)
            )
        run(self._session, binding, self._options)

    def _given(self, binding: Any) -> list[Value]:
        """What the growing caches have become. Outputs come in the order in which they were first bound."""
        outputs: list[Value] = binding.get_outputs()
        return outputs[len(self._buffers) + 1 :]

    def _read(self, binding: Any) -> Array:
        """What the head gave."""
        array: Array = binding.get_outputs_as_ortvaluevector()[len(self._buffers)].numpy()
        return array


def _fixed_result(session: onnxruntime.InferenceSession, batch: int) -> Array | None:
    """A place on the host for what the head gives, where its shape is the same in every call: one row a text."""
    output = session.get_outputs()[0]
    _, *shape = output.shape
    if not all(isinstance(n, int) for n in shape) or output.type not in ELEMENTS:
        return None
    return np.zeros((batch, *shape), ELEMENTS[output.type][1])
