"""GGUF files, read through the `gguf` library: metadata, and tensors dequantised one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gguf import GGUFReader
from gguf.quants import dequantize

from archspec.errors import WeightsError
from archspec.exporters.rows import matrix_rows

from .maps import Format
from .transforms import Array, Shape


class Gguf:
    """One GGUF file. Quantised tensors are read as float32, exactly what their blocks say."""

    formats: tuple[Format, ...] = ("gguf",)

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._reader = GGUFReader(path)
        except (ValueError, IndexError, OSError, UnicodeDecodeError) as error:
            remedy = "is it complete? compare its size with the original"
            raise WeightsError(f"{path} cannot be read as GGUF: {error}", remedy) from None
        self.metadata: Mapping[str, Any] = _Fields(self._reader)
        if self.metadata.get("split.count", 1) > 1:
            raise WeightsError(f"{path.name} is one part of several.", "join the parts: `llama-gguf-split --merge`")
        self._tensors = {t.name: t for t in self._reader.tensors}
        # GGUF counts dimensions from the innermost
        self.shapes: dict[str, Shape] = {n: tuple(int(d) for d in t.shape[::-1]) for n, t in self._tensors.items()}
        self.dtypes = {n: t.tensor_type.name for n, t in self._tensors.items()}

    def __reduce__(self) -> tuple[type[Gguf], tuple[Path]]:
        """For another process: it opens the file itself."""
        return Gguf, (self.path,)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Array:
        stored, shape = self._tensors[name], self.shapes[name]
        if stop is not None:
            shape = (stop - start, shape[-1])
        try:
            values = dequantize(matrix_rows(stored.data, start, stop), stored.tensor_type)
        except NotImplementedError:
            raise WeightsError(f"{name} is stored as {self.dtypes[name]}, which cannot be dequantised.") from None
        return values.reshape(shape)


class _Fields(Mapping[str, Any]):
    """The metadata: name -> value or list. Values are decoded when asked for (a vocabulary is long)."""

    def __init__(self, reader: GGUFReader) -> None:
        self._fields = {name: f for name, f in reader.fields.items() if not name.startswith("GGUF.")}

    def __getitem__(self, name: str) -> Any:
        try:
            return self._fields[name].contents()
        except UnicodeDecodeError as error:
            raise WeightsError(f"{name} in the file's metadata is damaged: {error}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)
