"""How ONNX Runtime is asked to load a graph."""

from __future__ import annotations

from pathlib import Path

import onnxruntime

#: Bytes of a graph without its weights from which its buffers are not planned: some 2,500 nodes.
LARGE = 1 << 19


def session_options(path: Path) -> onnxruntime.SessionOptions:
    """Options for the ONNX file `path`, which say nothing but errors.

    ONNX Runtime plans which buffers share memory in a time that is quadratic in the buffers of unknown size, and each expert
    of a mixture has some: 8 layers of 128 experts load in half a minute with a plan and in a second without. Without one a
    buffer comes from the arena and goes back to it, which costs neither time nor memory that could be measured.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.enable_mem_reuse = path.is_file() and path.stat().st_size < LARGE
    return options
