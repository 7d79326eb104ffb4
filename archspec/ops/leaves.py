"""Leaves and slots: what an operation stores and what it remembers. Every weight's shape is written once, here."""

from __future__ import annotations

from typing import Literal

from .record import Record

Stream = Literal["tokens", "source"]
"""The axis a tensor's rows stand on: `tokens` grows while decoding, `source` is an encoder's input beside a decoder."""


class Linear(Record):
    """y = x Wᵀ + b. Weight (out, inp), bias (out,). `residual`: it writes into the residual stream.

    `experts`: so many of them, stacked along a first axis; which one a row meets is decided by `experts(...)` around it.
    """

    inp: int
    out: int
    bias: bool = False
    residual: bool = False
    experts: int | None = None

    def tensors(self) -> dict[str, tuple[int, ...]]:
        stacked = () if self.experts is None else (self.experts,)
        tensors: dict[str, tuple[int, ...]] = {".weight": (*stacked, self.out, self.inp)}
        return {**tensors, ".bias": (*stacked, self.out)} if self.bias else tensors


class Table(Record):
    """Rows looked up by index. Weight (rows, width)."""

    rows: int
    width: int

    def tensors(self) -> dict[str, tuple[int, ...]]:
        return {".weight": (self.rows, self.width)}


class Vector(Record):
    """A learned vector (or one vector a head: H 1 C), from a constant. Not `trained`: a buffer, stored and not a parameter."""

    shape: tuple[int, ...]
    init: float
    trained: bool = True

    def tensors(self) -> dict[str, tuple[int, ...]]:
        return {"": self.shape}


Leaf = Linear | Table | Vector


class Slot(Record):
    """A cache: B heads S width, a row per token of its stream.

    `rows`: only the last so many rows can still be seen (a window, a chunk); None keeps all.
    """

    heads: int
    width: int
    stream: Stream = "tokens"
    rows: int | None = None
