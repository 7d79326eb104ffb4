"""Where the nodes of an exported graph run, and what is copied between devices at each step: asked of a run, not of a plan."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from archspec.exporters.files import temporary_folder

from .cache import ELEMENTS, Value, zeros
from .decode import Decoding, host, run_bound
from .device import Device, open_session
from .folder import ExportFolder

#: Nodes that ONNX Runtime puts between devices.
_COPIES = ("MemcpyFromHost", "MemcpyToHost")


@dataclass(frozen=True, slots=True)
class Placement:
    """One graph at work. `nodes`: provider -> operator -> how many ran there in the last call. `copies`: between devices, in it."""

    graph: str
    nodes: Mapping[str, Mapping[str, int]]
    copies: int


def placements(folder: ExportFolder, device: Device = "auto") -> list[Placement]:
    """Run every graph of a folder that a runtime uses, a decoder's for a prompt and a step, and see where its nodes went.

    Raises DeviceError where CUDA is demanded and not to be had.
    """
    return [_placement(folder, part, device) for part in folder.graphs if part != "logits" or not folder.cached]


def _placement(folder: ExportFolder, part: str, device: Device) -> Placement:
    path = folder.path / folder.graphs[part]
    with TemporaryDirectory(dir=temporary_folder()) as beside:
        session, report = open_session(path, device, profile=Path(beside) / "profile")
        if part == "cached":
            fixed = {i.name: _some(i) for i in session.get_inputs() if i.name.split(".")[0] in _FIXED}
            state = Decoding(session, report.device, 1, fixed, room=8)
            for length in (3, 1):
                state.step(np.zeros((1, length), np.int64), np.ones((1, length), np.int64))
        else:
            given = {i.name: _some(i) for i in session.get_inputs()}
            run_bound(session, given, {o.name: report.device for o in session.get_outputs()})
        events = json.loads(Path(session.end_profiling()).read_text("utf-8"))
    return _read(path.name, events)


#: Inputs of a cached graph that stay as they are from call to call.
_FIXED = ("cross", "source_mask", "prefix_length")


def _some(port: Any) -> Value:
    """Something in the shape of an input, with 1 for a row and 3 for any other length: integers are 1, and other numbers 0."""
    shape = [n if isinstance(n, int) else 1 if n == "batch" else 3 for n in port.shape]
    return zeros(shape, port.type) if port.type in ELEMENTS else host(np.ones(shape, np.int64))


def _read(graph: str, events: list[dict[str, Any]]) -> Placement:
    """The nodes of the last call in a profile."""
    last = [e for e in events if e.get("name") == "model_run"][-1]
    inside = range(last["ts"], last["ts"] + last["dur"] + 1)
    ran = [e for e in events if e.get("cat") == "Node" and e["name"].endswith("_kernel_time") and e["ts"] in inside]
    counts = Counter((e["args"]["provider"], e["args"]["op_name"]) for e in ran)
    nodes: dict[str, dict[str, int]] = {}
    for (provider, operator), n in counts.most_common():
        if operator not in _COPIES:
            nodes.setdefault(provider, {})[operator] = n
    return Placement(graph, nodes, sum(n for (_, operator), n in counts.items() if operator in _COPIES))
