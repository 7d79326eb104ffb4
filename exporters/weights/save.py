"""Weights to files: our own form, and checkpoints under other names. Tensors are streamed; a file appears whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from archspec.errors import WeightsError
from archspec.exporters.files import whole_file
from archspec.ops.head import NoHead, PoolerHead
from archspec.ops.model import Model

from .form import config_text, form_of
from .maps import plan
from .transforms import Shape, written

DTYPES = {torch.float64: "F64", torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}
WEIGHTS, SPEC, CONFIG = "model.safetensors", "spec.yaml", "config.json"
#: Called with what is being done and the share that is done.
Progress = Callable[[str, float], None]


def save(model: Model, module: nn.Module, folder: Path, spec: str, progress: Progress | None = None) -> list[str]:
    """Write `spec` (the complete spec's text) and every stored tensor once, under our paths. Returns the files' names."""
    tensors = module.state_dict()
    named = [(t.path, t.shape, lambda path=t.path: tensors[path]) for t in model.tensors()]
    dtype = _dtype(tensors[named[0][0]])
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
    family: str | None = None,
    progress: Progress | None = None,
    prefer: str | None = None,
    special: Mapping[str, Any] | None = None,
) -> list[str]:
    """Write a checkpoint that transformers loads: config.json, and the tensors under the family's names.

    family: the family's name; by default the first whose form the model has, `prefer` before all. special: what the config
    says beside the model, `eos_token_id` and the like. Returns the files' names.
    Raises `WeightsError` where no family has the model's form, saying what stands in the way.
    """
    form, config = form_of(model, context_length, family, prefer)
    bare = isinstance(model.head, NoHead | PoolerHead)  # the body alone: its names have no prefix
    laid = plan(form, model, () if bare else None)
    tensors = module.state_dict()
    named = [
        (name, shape, lambda e=e, i=i: written(e.chain, [tensors[p] for p in e.paths], e.op)[i])
        for e in laid.entries
        for i, (name, shape) in enumerate(zip(e.theirs, e.shapes, strict=True))
    ]
    dtype = _dtype(tensors[laid.entries[0].paths[0]])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).unlink(missing_ok=True)
    write_safetensors(folder / WEIGHTS, named, dtype, progress)
    write_text(folder / CONFIG, config_text(config, special or {}, str(dtype).removeprefix("torch.")))
    return [CONFIG, WEIGHTS]


def _dtype(tensor: Tensor) -> torch.dtype:
    if tensor.dtype not in DTYPES:
        raise WeightsError(f"weights of type {tensor.dtype} cannot be written.")
    return tensor.dtype


# ------------------------------------------------------------------------------------------------------------ files


def write_safetensors(
    path: Path,
    tensors: Sequence[tuple[str, Shape, Callable[[], Tensor]]],
    dtype: torch.dtype,
    progress: Progress | None = None,
) -> None:
    """Write (name, shape, how to get it) one tensor at a time    (https://github.com/huggingface/safetensors#format)."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape, _ in tensors:
        start, end = end, end + dtype.itemsize * int(torch.Size(shape).numel())
        header[name] = {"dtype": DTYPES[dtype], "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with whole_file(path) as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for i, (name, shape, get) in enumerate(tensors):
            tensor = get().detach().to("cpu", dtype).contiguous()
            assert tensor.shape == shape, name
            file.write(tensor.reshape(-1).view(torch.uint8).numpy().data)
            if progress:
                progress("writing weights", (i + 1) / len(tensors))


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with whole_file(path) as file:
        file.write(text.encode())
