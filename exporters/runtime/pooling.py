"""How a sentence encoder's vectors are made of its tokens', as the files of sentence-transformers beside a checkpoint say."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from archspec.errors import UsageError
from archspec.exporters.weights.special import MODULES, POOLING, TextError, json_object

Floats32 = NDArray[np.float32]
Way = Literal["mean", "first", "last"]

#: What a pooling's config calls the ways that are known here.
WAYS: dict[str, Way] = {
    "mean_tokens": "mean",
    "mean": "mean",
    "cls_token": "first",
    "cls": "first",
    "lasttoken": "last",
}
PREFIX = "pooling_mode_"
#: What a text goes through; the last is left out where vectors keep their length.
ORDER = ["Transformer", "Pooling", "Normalize"]


@dataclass(frozen=True, slots=True)
class Pooling:
    """way: which of a text's hidden states make its vector: their mean, the first, the last. unit: is it brought to length 1?"""

    way: Way = "mean"
    unit: bool = True

    def pooled(self, hidden: Floats32, lengths: NDArray[np.int64]) -> Floats32:
        """Hidden states B T D of texts with so many tokens each, padded behind -> B D, of whatever length."""
        if self.way != "mean":
            one: Floats32 = hidden[np.arange(len(hidden)), 0 if self.way == "first" else lengths - 1]
            return one
        there = np.arange(hidden.shape[1]) < lengths[:, None]
        means: Floats32 = ((hidden * there[:, :, None]).sum(axis=1) / lengths[:, None]).astype(np.float32)
        return means


def unit(vectors: Floats32) -> Floats32:
    """B D -> B D, of length 1, so that products are cosines."""
    shortened: Floats32 = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), np.float32(1e-12))
    return shortened


def pooling_of(folder: Path, way: Way | None = None) -> Pooling:
    """What a folder says of its vectors: the mean, of length 1, where it says nothing.

    way: what was asked for instead, so that it matters no more how the folder pools.
    Raises UsageError for what is not done here, and TextError for files that are damaged.
    """
    kinds = _modules(folder / MODULES)
    unit = kinds is None or "Normalize" in kinds
    if way:
        return Pooling(way, unit)
    if kinds is not None:
        if other := [kind for kind in kinds if kind not in (*ORDER, "Dropout")]:
            raise _undone(folder / MODULES, f"a module {other[0]}", "makes")
        if [kind for kind in kinds if kind != "Dropout"] not in (ORDER, ORDER[:2]):
            raise _undone(folder / MODULES, f"the modules {', '.join(kinds)}, in this order,", "make")
        if not (folder / POOLING).is_file():
            raise _undone(folder / MODULES, f"a pooling that {POOLING} says, which is missing,", "makes")
    return Pooling(_way(folder / POOLING), unit)


def _modules(path: Path) -> list[str] | None:
    """The kinds of modules that a text goes through: Transformer, Pooling, ... None: there is no such file."""
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text("utf-8"))
        return [str(module["type"]).rpartition(".")[2] for module in content]
    except (ValueError, TypeError, KeyError) as error:
        raise TextError(f"{path} is not a list of modules: {error}") from error


def _way(path: Path) -> Way:
    config = json_object(path)
    modes = [key.removeprefix(PREFIX) for key, on in config.items() if key.startswith(PREFIX) and on is True]
    named: Any = config.get("pooling_mode")  # as newer files say it
    modes += [] if named is None else named if isinstance(named, list) else [named]
    if len(modes) > 1:
        raise _undone(path, f"several poolings, {' and '.join(map(str, modes))},", "make")
    if modes and modes[0] not in WAYS:
        raise _undone(path, f"the pooling {modes[0]}", "makes")
    if not modes and config.get(f"{PREFIX}mean_tokens") is False:
        raise _undone(path, "no pooling at all", "makes")
    return WAYS[modes[0]] if modes else "mean"


def _undone(path: Path, what: str, makes: str) -> UsageError:
    return UsageError(
        f"{path}: {what} {makes} this model's vectors, which is not done here",
        "what is done: --pooling mean, --pooling first or --pooling last",
    )
