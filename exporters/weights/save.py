"""Weights to files: our own form, and checkpoints under other names. Tensors are streamed; a file appears whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from archspec.errors import WeightsError
from archspec.exporters.files import whole_file, write_text
from archspec.exporters.torch.arrays import array_of
from archspec.ops.head import NoHead, PoolerHead
from archspec.ops.model import Model

from .form import config_text, form_of
from .maps import plan
from .transforms import Array, Shape, written

DTYPES = {"float64": "F64", "float32": "F32", "bfloat16": "BF16", "float16": "F16"}
WEIGHTS, SPEC, CONFIG = "model.safetensors", "spec.yaml", "config.json"
#: Called with what is being done and the share that is done.
Progress = Callable[[str, float], None]


def save(model: Model, module: nn.Module, folder: Path, spec: str, progress: Progress | None = None) -> list[str]:
    """Write `spec` (the complete spec's text) and every stored tensor once, under our paths. Returns the files' names."""
    tensors = module.state_dict()
    named = [(t.path, t.shape, lambda path=t.path: array_of(tensors[path])) for t in model.tensors()]
    dtype = _dtype(array_of(tensors[named[0][0]]))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SPEC).unlink(missing_ok=True)  # without its spec, a folder with older or newer weights does not load
    write_safetensors(folder / WEIGHTS, named, dtype, progress)
    write_text(folder / SPEC, spec)
    return [SPEC, WEIGHTS]


def save_hf(
    model: Model,
    module: nn.Module,
    folder: Path,
    context_length: int | None = None,
    progress: Progress | None = None,
    prefer: str | None = None,
    special: Mapping[str, Any] | None = None,
) -> list[str]:
    """Write a checkpoint that transformers loads: config.json, and the tensors under the family's names.

    The family is the first whose form the model has, `prefer` (by name) before all. special: what the config says beside the
    model, `eos_token_id` and the like. Returns the files' names.
    Raises `WeightsError` where no family has the model's form, saying what stands in the way.
    """
    form, config = form_of(model, context_length, prefer)
    bare = isinstance(model.head, NoHead | PoolerHead)  # the body alone: its names have no prefix
    laid = plan(form, model, () if bare else None)
    tensors = module.state_dict()
    named = [
        (name, shape, lambda e=e, i=i: written(e.chain, [array_of(tensors[p]) for p in e.paths], e.op)[i])
        for e in laid.entries
        for i, (name, shape) in enumerate(zip(e.theirs, e.shapes, strict=True))
    ]
    dtype = _dtype(array_of(tensors[laid.entries[0].paths[0]]))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).unlink(missing_ok=True)
    write_safetensors(folder / WEIGHTS, named, dtype, progress)
    write_text(folder / CONFIG, config_text(config, special or {}, dtype.name))
    return [CONFIG, WEIGHTS]


def _dtype(array: Array) -> np.dtype[Any]:
    dtype: np.dtype[Any] = array.dtype
    if dtype.name not in DTYPES:
        raise WeightsError(f"weights of type {dtype} cannot be written.")
    return dtype


# ------------------------------------------------------------------------------------------------------------ files


def write_safetensors(
    path: Path,
    tensors: Sequence[tuple[str, Shape, Callable[[], Array]]],
    dtype: np.dtype[Any],
    progress: Progress | None = None,
) -> None:
    """Write (name, shape, how to get it) one tensor at a time    (https://github.com/huggingface/safetensors#format)."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape, _ in tensors:
        start, end = end, end + dtype.itemsize * prod(shape)
        header[name] = {"dtype": DTYPES[dtype.name], "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with whole_file(path) as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for i, (name, shape, get) in enumerate(tensors):
            array = np.asarray(get(), dtype, order="C")
            assert array.shape == shape, name
            file.write(array.reshape(-1).view(np.uint8).data)
            if progress:
                progress("writing weights", (i + 1) / len(tensors))
