"""Step by step through a text on ONNX Runtime, with the cache held where the model runs.

What one step gives as `present.*` the next one takes as `past.*`: the same ONNX Runtime values, bound and never copied to
numpy. Letters: B rows, T new tokens of a call, P past columns, S = P + T.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from archspec.errors import ArchspecError

from .device import ORT_ERRORS

Array = NDArray[Any]
Value = Any  # onnxruntime.OrtValue; the package has no types

_NUMPY: Mapping[str, type[np.generic]] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
}


class RunError(ArchspecError):
    """ONNX Runtime could not compute a step: out of memory, or numbers that the graph does not take."""


def element(kind: str) -> type[np.generic]:
    """The numpy type of a graph's `tensor(...)`. Raises ArchspecError for one that numpy does not have."""
    if kind not in _NUMPY:
        raise ArchspecError(f"the graph holds {kind}, which this runtime cannot read")
    return _NUMPY[kind]


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
    try:
        session.run_with_iobinding(binding)
    except ORT_ERRORS as error:
        raise RunError(f"ONNX Runtime failed: {str(error).splitlines()[0]}") from error
    return dict(zip(outputs, binding.get_outputs(), strict=True))


class Decoding:
    """The state of one batch in the making: its mask and its caches. Dropping the object frees them.

    `fixed` are inputs that stay as they are: the encoder's keys and values, the source's mask, the prefix lengths.
    """

    def __init__(
        self, session: onnxruntime.InferenceSession, device: str, batch: int, fixed: Mapping[str, Value] | None = None
    ) -> None:
        self._session, self._device, self._fixed = session, device, dict(fixed or {})
        self._mask = np.zeros((batch, 0), np.int64)
        self._past: dict[str, Value] = {}
        self._rows: dict[str, int] = {}
        for slot in session.get_inputs():
            if slot.name.startswith("past."):
                _, heads, rows, width = slot.shape
                empty = np.zeros((batch, heads, 0, width), element(slot.type))
                self._past[slot.name] = onnxruntime.OrtValue.ortvalue_from_numpy(empty, device)
                if str(rows).startswith("past_"):  # a window or a chunk: later queries see so many rows
                    self._rows[slot.name] = int(str(rows).removeprefix("past_"))
        #: Every token is of the first type where nobody says otherwise.
        self._typed = "token_type_ids" in {i.name for i in session.get_inputs()} - set(self._fixed)
        self._result = session.get_outputs()[0].name

    @property
    def held(self) -> dict[str, int]:
        """Past columns that each cache holds, by its input's name."""
        return {name: value.shape()[2] for name, value in self._past.items()}

    def step(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> Array:
        """B T ids and their mask (1 a token, 0 padding) -> B T V, or B 1 V where the graph gives the last position only.

        The result shares memory with ONNX Runtime: read it before the next step or copy it.
        """
        self._mask = np.concatenate([self._mask, mask], axis=1)
        inputs = {"input_ids": host(ids), "attention_mask": host(self._mask), **self._past, **self._fixed}
        if self._typed:
            inputs["token_type_ids"] = host(np.zeros_like(ids))
        outputs = {self._result: "cpu"}
        outputs |= {name.replace("past.", "present.", 1): self._device for name in self._past}
        out = run_bound(self._session, inputs, outputs)
        result: Array = out.pop(self._result).numpy()
        for name, value in zip(self._past, out.values(), strict=True):
            self._past[name] = self._trimmed(value, self._rows.get(name))
        return result

    def retire(self, rows: Sequence[int]) -> None:
        """Make these rows padding from end to end: whatever they are fed from now on, no position of theirs grows."""
        self._mask[list(rows)] = 0

    def _trimmed(self, value: Value, rows: int | None) -> Value:
        """Drop what no later query sees. It takes a copy, so only once as much again has gathered."""
        if rows is None or value.shape()[2] < 2 * rows:
            return value
        kept = np.ascontiguousarray(value.numpy()[:, :, -rows:])
        return onnxruntime.OrtValue.ortvalue_from_numpy(kept, self._device)
