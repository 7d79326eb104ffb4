"""Leaves and slots: what an operation stores and what it remembers. Every weight's shape is written once, here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Stream = Literal["tokens", "source"]
"""The axis a tensor's rows stand on: `tokens` grows while decoding, `source` is an encoder's input beside a decoder."""


@dataclass(frozen=True, slots=True)
class Linear:
    """y = x Wᵀ + b. Weight (out, inp), bias (out,). `residual`: it writes into the residual stream."""

    inp: int
    out: int
    bias: bool = False
    residual: bool = False

    def tensors(self) -> dict[str, tuple[int, ...]]:
        tensors: dict[str, tuple[int, ...]] = {".weight": (self.out, self.inp)}
        return {**tensors, ".bias": (self.out,)} if self.bias else tensors


@dataclass(frozen=True, slots=True)
class Table:
    """Rows looked up by index. Weight (rows, width)."""

    rows: int
    width: int

    def tensors(self) -> dict[str, tuple[int, ...]]:
        return {".weight": (self.rows, self.width)}


@dataclass(frozen=True, slots=True)
class Vector:
    """A learned vector (or one vector a head: H 1 C), from a constant."""

    shape: tuple[int, ...]
    init: float

    def tensors(self) -> dict[str, tuple[int, ...]]:
        return {"": self.shape}


Leaf = Linear | Table | Vector


@dataclass(frozen=True, slots=True)
class Slot:
    """A cache: B heads S width, a row per token of its stream.

    `rows`: only the last so many rows can still be seen (a window, a chunk); None keeps all.
    """

    heads: int
    width: int
    stream: Stream = "tokens"
    rows: int | None = None
