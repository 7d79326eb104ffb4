"""Where weights come from: a safetensors file, a folder of them, or a GGUF file, one tensor at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any, Protocol

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open

from archspec.errors import UsageError, WeightsError

from .maps import Format
from .transforms import Array, Shape

INDEX = "model.safetensors.index.json"
#: The stored types that are weights: floats, and the quantised blocks of GGUF.
REAL = re.compile(r"F16|F32|F64|BF16|[IT]?Q\d\w*|MXFP4")
#: Every type that a safetensors file may have and numpy can hold.
TYPES: dict[str, type[np.generic]] = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "I16": np.int16, "I32": np.int32, "I64": np.int64, "U16": np.uint16,
    "U32": np.uint32, "U64": np.uint64, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "F32": np.float32,
    "F64": np.float64, "F8_E5M2": ml_dtypes.float8_e5m2, "F8_E4M3": ml_dtypes.float8_e4m3fn,
}  # fmt: skip
PICKLES = (".bin", ".pt", ".pth", ".ckpt")
_UNPICKLE = "save the model with safe_serialization, then give the .safetensors file"


class Checkpoint(Protocol):
    """Named tensors that are read one by one."""

    @property
    def path(self) -> Path: ...
    @property
    def formats(self) -> tuple[Format, ...]: ...
    @property
    def metadata(self) -> Mapping[str, Any]:
        """The checkpoint's config.json, or the metadata of GGUF; empty where there is none."""
        ...

    @property
    def shapes(self) -> Mapping[str, Shape]: ...
    @property
    def dtypes(self) -> Mapping[str, str]:
        """Name -> how the file stores it: F32, BF16, Q4_1, ..."""
        ...

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Array:
        """One tensor, in the file's own precision (float32 where it was quantised); with `stop`, rows [start, stop) of it.

        Rows are those of a matrix: all axes but the last are one. Threads may read at once.
        """
        ...


class Safetensors:
    """One safetensors file, or the shards of one checkpoint."""

    formats: tuple[Format, ...] = ("archspec", "huggingface")

    def __init__(self, path: Path, files: list[Path], metadata: Mapping[str, Any]) -> None:
        self.path, self.metadata = path, metadata
        self.shapes: dict[str, Shape] = {}
        self.dtypes: dict[str, str] = {}
        #: Name -> file, and where the tensor starts in it.
        self._at: dict[str, tuple[Path, int]] = {}
        for file in files:
            for name, entry, start in _header(file):
                if name in self._at:
                    raise WeightsError(f"{path}: {name} is there more than once.")
                self._at[name], self.shapes[name] = (file, start), tuple(entry["shape"])
                self.dtypes[name] = entry["dtype"]

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Array:
        """A whole tensor is mapped: who keeps it need not copy it. Rows are read: what is looked at once should not stay."""
        shape, dtype = self.shapes[name], np.dtype(TYPES[self.dtypes[name]])
        file, at = self._at[name]
        if stop is None and at % dtype.itemsize == 0:
            if file.stat().st_size < at + prod(shape) * dtype.itemsize:
                raise _cut(file, name)
            return np.memmap(file, dtype, "c", at, shape)
        if stop is not None:
            shape = (stop - start, shape[-1])
        content = np.empty(shape, dtype)
        into = content.reshape(-1).view(np.uint8).data
        with file.open("rb", buffering=0) as opened:
            opened.seek(at + (start * shape[-1] * dtype.itemsize if shape else 0))
            while into:
                got = opened.readinto(into)
                if not got:
                    raise _cut(file, name)
                into = into[got:]
        return content


def _cut(file: Path, name: str) -> WeightsError:
    return WeightsError(f"{file}: {name} is not all there any more.", "was it changed meanwhile?")


def open_weights(path: str | Path) -> Checkpoint:
    """Open a .safetensors file, a folder (of a checkpoint, or one that `archspec build` wrote) or a .gguf file.

    Raises `UsageError` where there is nothing to read, `WeightsError` where a file is damaged.
    """
    path = Path(path)
    if not path.exists():
        raise UsageError(f"There is no {path}.", "weights are a .safetensors or .gguf file, or a folder with one")
    if path.is_dir():
        return _open_folder(path)
    if path.suffix == ".gguf":
        from .gguf import Gguf

        return Gguf(path)
    if path.suffix == ".safetensors":
        return Safetensors(path, [path], _config(path.parent))
    if path.name == INDEX:
        return Safetensors(path.parent, _shards(path), _config(path.parent))
    if path.suffix in PICKLES:
        raise UsageError(f"{path.name} is a pickle, which may run any code when it is read.", _UNPICKLE)
    raise UsageError(f"{path.name} is not a weights file.", "weights are .safetensors or .gguf")


def _open_folder(folder: Path) -> Checkpoint:
    whole = folder / "model.safetensors"
    if (folder / INDEX).exists():
        if whole.exists():  # which of them is older, only their owner knows
            raise UsageError(f"{folder} holds both {whole.name} and {INDEX}.", "name the one to read")
        return Safetensors(folder, _shards(folder / INDEX), _config(folder))
    found = sorted(folder.glob("*.safetensors"))
    if whole in found or len(found) == 1:
        return Safetensors(folder, [whole if whole in found else found[0]], _config(folder))
    ggufs = sorted(folder.glob("*.gguf"))
    if not found and len(ggufs) == 1:
        return open_weights(ggufs[0])
    if several := found or ggufs:
        raise UsageError(f"{folder} holds {len(several)} weights files and no {INDEX}.", "name the file to read")
    if pickles := sorted(f.name for f in folder.iterdir() if f.suffix in PICKLES):
        raise UsageError(f"{folder} holds pickles alone, which may run any code: {', '.join(pickles[:3])}.", _UNPICKLE)
    raise UsageError(f"{folder} holds no weights.", "model.safetensors, sharded safetensors or a .gguf file")


def _header(file: Path) -> Iterator[tuple[str, dict[str, Any], int]]:
    """(name, what the header says of it, where it starts), for every tensor    (github.com/huggingface/safetensors#format)."""
    try:
        with safe_open(str(file), "np"):  # the library's own checks
            pass
    except (SafetensorError, OSError) as error:
        raise WeightsError(
            f"{file} cannot be read: {error}", "is it complete? compare its size with the original"
        ) from None
    with file.open("rb") as content:
        size = int.from_bytes(content.read(8), "little")
        header = json.loads(content.read(size))
    header.pop("__metadata__", None)
    for name, entry in header.items():
        yield _today(name), entry, 8 + size + entry["data_offsets"][0]


def _today(name: str) -> str:
    """A name as it is now: the first BERTs still have TensorFlow's for the parameters of a norm."""
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _shards(index: Path) -> list[Path]:
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        raise WeightsError(f"{index} has no weight_map of tensors to files.")
    files = [index.parent / name for name in sorted(set(weight_map.values()))]
    if missing := [f.name for f in files if not f.is_file()]:
        raise WeightsError(f"{index.parent} lacks {len(missing)} of {len(files)} shards: {', '.join(missing)}")
    return files


def _config(folder: Path) -> Mapping[str, Any]:
    file = folder / "config.json"
    return read_json(file) if file.is_file() else {}


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object. Raises `WeightsError` where it is none."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise WeightsError(f"{file} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise WeightsError(f"{file} is not a JSON object.")
    return value
