"""Tiny models as exported folders, and texts to send through them."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from tiny import tiny

from archspec.exporters.onnx.answers import answers, reference
from archspec.exporters.onnx.emit import by_token, parts, result
from archspec.exporters.onnx.export import export
from archspec.exporters.onnx.graph import Array
from archspec.exporters.onnx.questions import Case, questions, request
from archspec.exporters.onnx.twin import Exact
from archspec.exporters.onnx.verify import Graph, Verification, stepped, verify
from archspec.exporters.onnx.words import Part
from archspec.exporters.rows import matrix_rows
from archspec.exporters.torch.module import Transformer, build
from archspec.ops.model import Model


@cache
def _root() -> Path:
    """A folder that goes with the process."""
    root = Path(tempfile.mkdtemp(prefix="archspec-tests-"))
    atexit.register(shutil.rmtree, root)
    return root


def random_module(model: Model, seed: int = 0) -> Transformer:
    """A built model in which every weight matters: none is 0 or 1."""
    module = build(model, dtype="float32", seed=seed).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, parameter in module.stored():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.2)
    return module


@cache
def _graph(path: Path) -> Graph:
    return Graph(path)


@dataclass(frozen=True)
class Exported:
    """A model, its folder, and the same weights in PyTorch in float32 and float64."""

    model: Model
    folder: Path
    module: Transformer
    exact: Transformer

    def graph(self, part: str) -> Graph:
        return _graph(self.folder / parts(self.model)[part])  # type: ignore[index]

    def send(self, case: Case, seed: int = 0) -> tuple[dict[str, Array], Array]:
        """A request, and what PyTorch says to it in float64."""
        feed = request(self.model, case, seed)
        return feed, reference(self.exact, feed)

    def whole(self, feed: dict[str, Array]) -> Array:
        return self.graph("logits").run(feed)[result(self.model)[0]]

    def stepped(self, feed: dict[str, Array], cuts: tuple[int, ...]) -> tuple[Array, list[int]]:
        if self.model.form == "encoder_decoder":
            feed = feed | self.graph("encoder").run(feed)
        return stepped(self.graph("cached"), feed, cuts)

    def difference(self, got: Array, want: Array, feed: dict[str, Array]) -> float:
        """The largest one, padding aside; not finite anywhere is infinite."""
        if not np.isfinite(got).all():
            return float("inf")
        apart = np.abs(got - want)
        return float((apart[feed["attention_mask"] > 0] if by_token(self.model) else apart).max())


def verified(
    folder: Path,
    model: Model,
    module: Transformer,
    context: int | None = None,
    twins: Mapping[Part, Exact] | None = None,
) -> Verification:
    """A folder against a module that is at hand."""
    asked = questions(model, context)
    return verify(folder, model, asked, partial(answers, module, asked), twins)


@cache
def exported(name: str, *overrides: str, last_only: bool = False) -> Exported:
    """The tiny model of that name, exported once a test process."""
    model = tiny(name, *overrides)
    module = random_module(model)
    folder = Path(tempfile.mkdtemp(dir=_root())) / "model"
    export(model, stored(module), "archspec: 1\n", folder, verify=False, last_only=last_only)
    exact = build(model, dtype="float64")
    exact.load_state_dict(module.state_dict())
    return Exported(model, folder, module, exact.eval())


def by_hand(graph: Graph, feed: dict[str, Array], cuts: tuple[int, ...], keep: Callable[[str], int | None]) -> Array:
    """A text read in pieces with plain numpy, as a user would; `keep`: of a cache with that dimension so many rows."""
    batch, start = len(feed["input_ids"]), 0
    pieces = []
    past = {n: np.zeros((batch, s[1], 0, s[3]), np.float32) for n, s in graph.inputs.items() if n.startswith("past.")}
    for n in cuts:
        end = start + n
        piece = {**feed, **past, "attention_mask": feed["attention_mask"][:, :end]}
        piece |= {name: feed[name][:, start:end] for name in ("input_ids", "token_type_ids")}
        out = graph.run(piece)
        pieces.append(out["logits"])
        for name in past:
            rows, present = keep(str(graph.inputs[name][2])), out[name.replace("past", "present", 1)]
            past[name] = present if rows is None else present[:, :, -rows:]
        start = end
    return np.concatenate(pieces, 1)


def rows_of(dimension: str) -> int | None:
    """What a cache's third dimension says about the rows that are needed: of `past_4` four."""
    return int(dimension.partition("_")[2]) if "_" in dimension else None


def stored(module: Transformer):  # type: ignore[no-untyped-def]
    """The weights of a module, as an export reads them."""
    return lambda path, *rows: matrix_rows(module.tensor(path).detach().numpy(), *rows)


def write(out: Path, *, overwrite: bool = False, fill: float | None = None) -> None:
    """An export of the tiny GPT-2, or of one whose every weight is `fill`."""
    model = tiny("gpt2")
    weights = stored(random_module(model))
    filled = weights if fill is None else lambda *rows: np.full_like(weights(*rows), fill)
    export(model, filled, "x: 1\n", out, overwrite=overwrite, verify=False)
