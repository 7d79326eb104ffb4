"""A precision on trial: first whether a graph is right, and then what its numbers cost.

The graph's float32 twin must agree with PyTorch, which has the weights as they are stored, to float32's rounding: so a wrong graph
never hides behind coarse weights. Then the graph itself is measured against PyTorch with the weights as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import onnxruntime as ort

from archspec.compiler.precision import Precision, storage
from archspec.exporters.runtime.device import cuda, open_session
from archspec.exporters.runtime.text import Text
from archspec.ops.model import Model

from .answers import answers, evaluating, loaded, reference
from .emit import parts
from .graph import Array
from .measures import BUDGETS, Measures, demand, measured
from .passage import TEXT
from .questions import Case, Question, fitting, request
from .rounded import rounded
from .sidecar import Progress
from .twin import Exact, twin
from .verify import Verification, answers_of, on_cpu, verify
from .words import Part

if TYPE_CHECKING:
    from .comparison import Comparison

Opened = Callable[[Path], ort.InferenceSession]
Feed = dict[str, Array]

#: Random texts, and the tokens of a real one; the tokens of each that are read one by one.
RANDOM, WORDS, STEPS = Case(4, (64,), False, 32), 256, 8
NO_BFLOAT16 = (
    "compared in float32: ONNX Runtime has kernels of bfloat16 on CUDA only, so this machine cannot run what it wrote"
)


def verify_precision(c: Comparison, folder: Path, twins: Mapping[Part, Exact], progress: Progress) -> Verification:
    """Compare an exported folder in half precision, or with weights in blocks, with PyTorch in float32.

    twins: by what the graphs' twins are held against PyTorch.
    Raises VerificationError for a graph that is wrong, BudgetError for one whose numbers are too coarse.
    """
    model, weights, precision = c.model, c.weights, c.precision
    feeds = requests(folder, model, c.context)
    module = c.module or loaded(model, weights)
    with evaluating(module):
        wanted = [reference(module, feed) for feed in feeds.values()]
    del module  # two in memory would be one too many
    progress("verification", 0.25)
    coarse = loaded(model, rounded(model, weights, storage(model, precision)))
    progress("verification", 0.5)
    checked = verify(folder, model, c.asked, partial(answers, coarse, c.asked), twins)
    del coarse
    progress("verification", 0.75)
    opened, remark = _as_they_are(model, precision, twins)
    allowed = BUDGETS[precision.name] if c.budget is None else c.budget
    measures, steps = _measured(folder, model, feeds, wanted, opened)
    measures[-1] = replace(measures[-1], allowed=allowed)
    steps = [replace(each, allowed=allowed) for each in steps]
    for each in measures:
        demand(precision, each)
    for each in steps:
        demand(precision, each, "a text read step by step is too far from the same text as a whole")
    remarks = "; ".join(filter(None, (checked.remark, remark))) or None
    return replace(checked, measures=tuple(measures), steps=tuple(steps), remark=remarks)


def _as_they_are(
    model: Model, precision: Precision, twins: Mapping[Part, Exact]
) -> tuple[Mapping[Part, Opened], str | None]:
    """How each graph is opened to be measured as it was written, and what is to be said where it cannot be."""
    if precision.compute != "bf16":
        return dict.fromkeys(parts(model), on_cpu), None
    if cuda().usable:
        return dict.fromkeys(parts(model), lambda path: open_session(path, "cuda")[0]), None
    return {part: partial(twin, exact=twins[part]) for part in parts(model)}, NO_BFLOAT16


def _measured(
    folder: Path, model: Model, feeds: Mapping[str, Feed], wanted: Sequence[Array], opened: Mapping[Part, Opened]
) -> tuple[list[Measures], list[Measures]]:
    """Whole texts beside PyTorch, and beside these the same texts read step by step, whose graph has kernels of its own."""
    names = list(feeds)
    questions = [Question(feed, _cuts(model, feed["input_ids"].shape[1])) for feed in feeds.values()]
    said = list(answers_of(folder, model, questions, opened))
    whole = {i: got for i, _, got, columns in said if columns is None}
    measures = [measured(model, name, _positions(wanted[i]), _positions(whole[i])) for i, name in enumerate(names)]
    steps = [
        measured(model, f"{names[i]}, {_read(questions[i].cuts)}", _positions(whole[i][:, columns]), _positions(got))
        for i, _, got, columns in said
        if columns is not None
    ]
    return measures, steps


def _cuts(model: Model, length: int) -> tuple[int, ...]:
    """A prompt, and single tokens after it; as a whole where angles depend on how long a text is so far."""
    steps = 0 if model.grows else min(STEPS, length - 1)
    return (length - steps, *[1] * steps)


def _read(cuts: Sequence[int]) -> str:
    """How a text was cut by `_cuts`."""
    return f"the last {len(cuts) - 1} one by one" if len(cuts) > 1 else "in one call"


def requests(folder: Path, model: Model, context: int | None) -> dict[str, Feed]:
    """What a graph is given, by what it is: random tokens, and last a text where the folder has a tokenizer for it."""
    random = request(model, fitting(RANDOM, model, context), 0)
    feeds = {f"{random['input_ids'].size} random tokens": random}
    if (folder / "tokenizer.json").is_file():
        ids = Text.load(folder).encode(TEXT)
        case = fitting(Case(1, (min(len(ids), WORDS),), False, min(len(ids), WORDS)), model, context)
        feed = request(model, case, 0)
        for name in ("input_ids", "source_ids"):
            feed[name][0] = ids[: feed[name].shape[1]]
        if max(ids) < model.main[1].embedding.vocab:
            feeds[f"{case.cuts[0]} tokens of text"] = feed
    return feeds


def _positions(outputs: Array) -> Array:
    """B T C or B C -> N C"""
    return outputs.reshape(-1, outputs.shape[-1])
