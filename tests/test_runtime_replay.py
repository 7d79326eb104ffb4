"""Steps that a CUDA graph may record, on the CPU: what recording does to a step, without the recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from exported import exported
from tiny import text

from archspec.exporters.runtime import replay
from archspec.exporters.runtime.decode import Decoding
from archspec.exporters.runtime.device import open_session

WINDOWS = "decoder.layers=[{repeat: 2, attention: {window: 4}}]"


@pytest.mark.parametrize("room", [20, 9])
def test_a_step_that_is_run_several_times_to_be_recorded_is_one_step(
    room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime runs a step twice before it records it. A window that is full moves in each of these runs."""
    tiny = exported(text("llama"), tmp_path / "model", "decoder.attention.head_dim=16", target="ort")
    session = open_session(tiny.folder / "model.onnx", "cpu")[0]
    recorded, run, seen = [], replay.run, set[int]()

    def thrice(session: onnxruntime.InferenceSession, binding: Any, options: onnxruntime.RunOptions | None) -> None:
        for _ in range(1 if id(binding) in seen else 3):
            run(session, binding, options)
        seen.add(id(binding))
        recorded.append(binding)

    monkeypatch.setattr(replay, "run", thrice)
    states = [Decoding(session, "cpu", 2, room=room, recorded=on) for on in (False, True)]
    rng = np.random.default_rng(0)
    for length in (6, *[1] * 10):
        ids, mask = rng.integers(61, size=(2, length)), np.ones((2, length), np.int64)
        plain, step = (state.step(ids, mask).copy() for state in states)
        np.testing.assert_allclose(step, plain, atol=1e-5)
    assert len(seen) == (1 if room == 20 else 2)  # buffers that grow are recorded anew
    assert len(recorded) == 10 + len(seen)


@pytest.mark.parametrize("layers", [(), (WINDOWS,)])
def test_a_mask_is_no_wider_than_the_context(layers: tuple[str, ...], tmp_path: Path) -> None:
    """Its width is what the kernel takes for the text's length, and the angles end with the context: 24."""
    tiny = exported(text("llama"), tmp_path / "model", "decoder.attention.head_dim=16", *layers, target="ort")
    session = open_session(tiny.folder / "model.onnx", "cpu")[0]
    state = Decoding(session, "cpu", 1, room=5, context=24, recorded=True)
    tokens = list(range(3, 27))
    for at, length in ((0, 3), *((i, 1) for i in range(3, 24))):
        logits = state.step(np.array([tokens[at : at + length]]), np.ones((1, length), np.int64))
    np.testing.assert_allclose(logits[0, -1], tiny.logits(tokens)[-1], atol=1e-4)
