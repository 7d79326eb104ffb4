"""`archspec build`: a folder with the complete spec, its weights, and the tokenizer that came with them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Protocol

from archspec.compiler.show import show
from archspec.errors import UsageError, WeightsError
from archspec.exporters.files import files_in, refusals
from archspec.exporters.fresh import untrained
from archspec.exporters.torch.module import Transformer, build
from archspec.exporters.torch.room import demand
from archspec.language.model import Spec
from archspec.ops.model import Model

from .load import LoadReport, read_into
from .save import CONFIG, SPEC, WEIGHTS, Progress, save, save_hf
from .source import REAL, Checkpoint, open_weights
from .special import special_ids
from .tokenizer import FILES, bring_tokenizer

Dtype = Literal["float32", "bfloat16", "float16"]


class Buildable(Protocol):
    """A compiled spec (`archspec.load` gives one)."""

    @property
    def spec(self) -> Spec: ...
    @property
    def model(self) -> Model: ...
    def checkpoint(self, weights: str | Path | None) -> str | Path | None:
        """Those weights, or what lies beside the spec."""
        ...


def write_folder(
    arch: Buildable,
    output: Path,
    *,
    module: Transformer | None = None,
    weights: str | Path | None = None,
    dtype: str | None = None,
    seed: int | None = 0,
    layout: str = "archspec",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> str:
    """Build a model, fresh or with weights read, and write it. Returns what was done, as text.

    module: one that is built already, whose weights are written as they are.
    dtype: of the written weights; by default the precision of the file they are read from, or the spec's.
    layout: `archspec` writes spec.yaml and our names, `hf` config.json and the names of a Hugging Face family.
    Raises `UsageError` where `output` is taken, `WeightsError` where weights and spec do not fit.
    """
    _refuse(output, overwrite)
    found = None if module else arch.checkpoint(weights)
    source, family, lines = open_weights(found) if found else None, None, list[str]()
    if module:
        dtype = str(next(module.parameters()).dtype).removeprefix("torch.")
    elif source:
        dtype = dtype or _precision(source)
        module, report = loaded(arch.model, source, dtype, arch.spec.context_length)
        lines, family = report.lines(), report.family
    else:
        dtype = dtype or arch.spec.dtype
        module, lines = build(arch.model, arch.spec.init, dtype=dtype, seed=seed), [untrained(seed)]
    spec = arch.spec.model_copy(update={"dtype": dtype})
    with refusals(output), _whole(output):
        if layout == "hf":
            names = save_hf(
                arch.model,
                module,
                output,
                spec.context_length,
                progress=progress,
                prefer=family,
                special=special_ids(source.metadata) if source else {},
            )
        else:
            names = save(arch.model, module, output, show(spec), progress)
        tokenizer, said = _tokenizer(source, output)
    return "\n".join([*lines, *said, f"wrote {', '.join(sorted(names + tokenizer))} ({dtype}) to {output}"])


@contextmanager
def _whole(output: Path) -> Iterator[None]:
    """A folder that was not there before is gone again where it could not be written whole."""
    made = not output.exists()
    try:
        yield
    except BaseException:
        if made:
            shutil.rmtree(output, ignore_errors=True)
        raise


def loaded(
    model: Model, source: Checkpoint, dtype: str, context_length: int | None = None
) -> tuple[Transformer, LoadReport]:
    """The module with a checkpoint's weights, and what was read. Nothing is initialised first."""
    module = build(model, dtype=dtype, device="meta")
    demand(model, next(module.parameters()).dtype, "cpu")
    module.to_empty(device="cpu")
    return module, read_into(model, source, module, context_length)


def _precision(source: Checkpoint) -> Dtype:
    """The narrowest type that holds every weight of the file as it is (float32 for quantised ones)."""
    stored = {d for d in source.dtypes.values() if REAL.fullmatch(d)}
    exact: dict[str, Dtype] = {"F16": "float16", "BF16": "bfloat16"}
    return exact.get(stored.pop(), "float32") if len(stored) == 1 else "float32"


def _tokenizer(source: Checkpoint | None, output: Path) -> tuple[list[str], list[str]]:
    """The tokenizer's files, and a line where there is none to be had: the weights are good without."""
    if source is None:
        return [], []
    try:
        return bring_tokenizer(source, output), []
    except WeightsError as error:
        return [], [f"no tokenizer was written: {error}"]


def _refuse(output: Path, overwrite: bool) -> None:
    """Raises `UsageError` unless the folder is free, or an earlier build that may be replaced."""
    if not output.exists():
        return
    if not output.is_dir():
        raise UsageError(f"{output} is a file; a build is a folder.", "choose another place")
    there = files_in(output)
    if foreign := sorted({*there} - {SPEC, CONFIG, WEIGHTS, *FILES}):
        raise UsageError(f"{output} holds files that no build wrote: {', '.join(foreign[:5])}.", "choose another place")
    if there and not overwrite:
        raise UsageError(f"{output} holds an earlier build.", "say --force to replace it, or choose another place")
