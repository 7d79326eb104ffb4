"""Fresh weights: each a function of the spec's init, a seed and its path alone, so that any rows can be drawn in any order."""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256
from math import prod, sqrt
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from archspec.language.model import FanInInit, NormalInit, XavierInit
from archspec.ops.base import Tensor
from archspec.ops.leaves import Linear, Table, Vector
from archspec.ops.model import Model

Array = np.ndarray[Any, Any]
Init = NormalInit | XavierInit | FanInInit
Distribution = Literal["normal", "truncated", "uniform"]

#: A weight is one of so many values, each as likely: finer than bfloat16 and float16 can tell apart, and one look-up to draw.
STEPS = 1 << 16
#: Weights that one number of the generator gives, and those that are drawn at once: numpy's calls cost little beside them.
EACH, BLOCK = 4, 1 << 18
#: SplitMix64 (Steele, Lea and Flood 2014): number n of a key is key + n · GAMMA, mixed, so that any can be had by itself.
GAMMA = 0x9E3779B97F4A7C15
MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


class Fresh:
    """The stored tensors of a model by path, in `dtype`: rounded once from float32.

    The same seed gives the same weights, on every machine and device, whole or row by row.
    """

    def __init__(self, model: Model, init: Init, seed: int, dtype: Any = np.float32) -> None:
        self.init, self.seed, self.dtype = init, seed, np.dtype(dtype)
        self.depths = {name: len(stack.layers) for name, stack in model.stacks().items()}
        self.tensors = {t.path: t for t in model.tensors()}

    def __call__(self, path: str, start: int = 0, stop: int | None = None) -> Array:
        """A whole tensor in its shape; with `stop`, rows [start, stop) of it as a matrix, all axes but the last being one."""
        stored = self.tensors[path]
        shape = stored.shape if stop is None else (stop - start, stored.shape[-1])
        leaf = stored.leaf
        if isinstance(leaf, Vector):
            return np.full(shape, leaf.init, self.dtype)
        if path.endswith(".bias"):
            return np.zeros(shape, self.dtype)
        key = int.from_bytes(sha256(f"{self.seed} {path}".encode()).digest()[:8])
        first = start * stored.shape[-1]
        before = first % EACH
        out = np.empty(before + prod(shape), self.dtype)
        values = _values(*self._spread(stored, leaf), self.dtype)
        for at in range(0, len(out), BLOCK):
            block = out[at : at + BLOCK]
            drawn = _numbers(key, (first + at) // EACH, -(-len(block) // EACH)).view(np.uint16)
            values.take(drawn[: len(block)], out=block, mode="clip")
        return out[before:].reshape(shape)

    def _spread(self, stored: Tensor, leaf: Linear | Table) -> tuple[Distribution, float]:
        """A distribution and its scale. A table's width counts as its input: what it is where it is the head as well."""
        into, out = (leaf.inp, leaf.out) if isinstance(leaf, Linear) else (leaf.width, leaf.rows)
        match self.init:
            case NormalInit() as init:
                stack = re.match(r"(encoder|decoder)\.layers\.", stored.path)
                deep = init.residual == "depth_scaled" and isinstance(leaf, Linear) and leaf.residual
                std = init.std / sqrt(2 * self.depths[stack[1]]) if deep and stack else init.std
                return "truncated" if init.truncated else "normal", std
            case XavierInit() as init:
                return "uniform", init.gain * sqrt(6 / (into + out))
            case FanInInit() as init:
                return "normal", init.gain / sqrt(into)


def untrained(seed: int | None) -> str:
    """What is said of weights that nobody trained."""
    return f"fresh weights (seed {seed}): nothing in them is trained"


def _numbers(key: int, start: int, count: int) -> Array:
    """Numbers [start, start + count) of a key: 64 random bits each."""
    numbers = _steps()[:count] + np.uint64((key + start * GAMMA) % (1 << 64))
    for shift, factor in MIX:
        numbers ^= numbers >> np.uint64(shift)
        numbers *= np.uint64(factor)
    numbers ^= numbers >> np.uint64(31)
    return numbers


@lru_cache
def _steps() -> Array:
    """n · GAMMA, modulo 2^64 as all of it."""
    steps: Array = np.arange(BLOCK // EACH, dtype=np.uint64) * np.uint64(GAMMA)
    return steps


@lru_cache(maxsize=64)
def _values(kind: Distribution, scale: float, dtype: np.dtype[Any]) -> Array:
    return (_unit(kind) * scale).astype(np.float32).astype(dtype)


@lru_cache
def _unit(kind: Distribution) -> Array:
    """The middles, by probability, of `STEPS` equally likely steps: of N(0, 1), of N(0, 1) within ±2, of U(-1, 1)."""
    half = (np.arange(STEPS // 2) + 0.5) / STEPS  # below the median
    if kind == "uniform":
        below = 2 * half - 1
    else:
        normal = NormalDist()
        cut = normal.cdf(-2) if kind == "truncated" else 0.0
        below = np.array([normal.inv_cdf(cut + (1 - 2 * cut) * p) for p in half.tolist()])
    return np.concatenate([below, -below[::-1]])
