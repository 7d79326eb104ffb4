"""Tiny exported models for the runtime's tests: a spec in, the built module and its folder out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copy
from typing import Any

import numpy as np
import torch

from archspec.compiler.compile import finish
from archspec.compiler.resolve import resolve_text
from archspec.compiler.show import show
from archspec.exporters.onnx.beside import Beside
from archspec.exporters.onnx.emit import Target
from archspec.exporters.onnx.export import export
from archspec.exporters.rows import matrix_rows
from archspec.exporters.runtime.session import Step
from archspec.exporters.torch.module import Transformer, build


def by_pytorch(
    module: Transformer, ids: Sequence[int], source: Sequence[int] | None = None, prefix: int | None = None
) -> Any:
    """T V, or a vector, from a full forward of one text: no cache, no padding."""
    with torch.no_grad():
        return module(
            torch.tensor([ids]),
            source=None if source is None else torch.tensor([source]),
            prefix_length=None if prefix is None else torch.tensor([prefix]),
        )[0].numpy()


@dataclass(frozen=True)
class Exported:
    """A model twice: as a PyTorch module and as an exported folder."""

    module: Transformer
    folder: Path

    def logits(self, ids: Sequence[int], source: Sequence[int] | None = None, prefix: int | None = None) -> Any:
        """T V by PyTorch, as `by_pytorch`."""
        return by_pytorch(self.module, ids, source, prefix)

    def greedy(
        self, prompt: Sequence[int], new: int, source: Sequence[int] | None = None, prefix: int | None = None
    ) -> list[int]:
        """Greedy tokens, each from a full forward of all that stands before it."""
        ids = list(prompt)
        for _ in range(new):
            ids.append(int(self.logits(ids, source, prefix)[-1].argmax()))
        return ids[len(prompt) :]


def exported(
    text: str, folder: Path, *overrides: str, target: Target = "onnx", beside: Beside | None = None
) -> Exported:
    """Build a spec with weights so large that tokens differ from step to step, and export it."""
    compiled = finish(resolve_text(text, overrides=overrides))
    module = build(compiled.model, seed=3).eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for _, parameter in module.stored():
            if parameter.dim() == 2:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)

    def weights(path: str, start: int = 0, stop: int | None = None) -> np.ndarray[Any, Any]:
        array: np.ndarray[Any, Any] = matrix_rows(module.tensor(path).detach().numpy(), start, stop)
        return array

    context = compiled.spec.context_length
    export(
        compiled.model, weights, show(compiled.spec), folder,
        verify=False, target=target, context_length=context, beside=beside,
    )  # fmt: skip
    return Exported(module, folder)


def companions(*files: Path) -> Callable[[Path], object]:
    """What brings these files into an export."""
    return lambda folder: [copy(file, folder) for file in files]


def rows(steps: Iterable[Step]) -> list[list[int]]:
    """The tokens of each row."""
    return [[t for t in row if t is not None] for row in zip(*(step.tokens for step in steps), strict=True)]
