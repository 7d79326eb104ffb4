"""ONNX Runtime against PyTorch: an exported folder computes what the built model computes, or it does not get its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

from archspec.errors import VerificationError, WeightsError
from archspec.exporters.runtime.decode import Decoding, host
from archspec.exporters.runtime.device import RunError
from archspec.exporters.runtime.options import session_options
from archspec.ops.model import Model

from .emit import by_token, parts, result
from .measures import Measures
from .questions import Answer, Array, Question
from .twin import Exact, twin
from .words import Part

#: The share of the outputs' spread that two ways of adding float32 numbers may differ by; what is read off a wrong equation
#: is larger by orders (GELU by tanh instead of erf: some 1e-3).
TOLERANCE = 3e-4
#: Below this a difference is rounding, whatever the outputs are.
FLOOR = 1e-5

ORT_ERRORS = (
    ort_errors.Fail, ort_errors.InvalidArgument, ort_errors.InvalidGraph, ort_errors.InvalidProtobuf,
    ort_errors.NotImplemented, ort_errors.RuntimeException,
)  # fmt: skip
REPORT = "this is a fault of archspec: please report it, with the spec"
#: What is said where nothing that a graph does could have shown.
SAME = "with these weights the outputs are the same whatever is read, so that they agree says nothing of the layers: try others"
#: Inputs that are new in every call.
_OF_A_CALL = ("input_ids", "attention_mask", "token_type_ids")


@dataclass(frozen=True)
class Verification:
    """How far ONNX Runtime was from PyTorch at most, and how far it might have been; what a precision costs."""

    difference: float
    tolerance: float
    values: int
    """Numbers that were compared."""
    runtime: str
    measures: tuple[Measures, ...] = ()
    """Of a precision: the graph of whole texts beside PyTorch in float32, as both are."""
    steps: tuple[Measures, ...] = ()
    """Of a precision: the graph that steps through a text beside the one of whole texts, as both are."""
    remark: str | None = None

    def told(self) -> Iterator[str]:
        """What was verified and how it came out, in sentences; what a precision costs is `costs`."""
        stored = ", with the weights as they are stored" if self.measures else ""
        yield (
            f"verified on {self.runtime}: {self.values:,} numbers agree with PyTorch's in float32{stored}; "
            f"largest difference {self.difference:.1e} (allowed {self.tolerance:.1e})"
        )
        if self.remark:
            yield self.remark


def verify(
    folder: Path,
    model: Model,
    questions: Sequence[Question],
    answers: Callable[[], Sequence[tuple[Answer, Answer]]],
    twins: Mapping[Part, Exact] | None = None,
) -> Verification:
    """Compare the graphs of an exported folder with the built model in float32, on the CPU.

    Whole texts through `logits`, the same in pieces through `cached`, with and without padding. Equal means: no number is
    further off than `TOLERANCE` times the standard deviation of the model's outputs.
    answers: gives PyTorch's (`answers.answers`); called when ONNX Runtime's are there and its sessions are gone.
    twins: compare the graphs' twins in float32; PyTorch has weights as the folder has them.

    Raises:
        VerificationError: they are not equal, or ONNX Runtime refuses a graph.
        WeightsError: PyTorch's own answers are no numbers.
    """
    twins = twins or {}
    as_it_lies = partial(on_cpu, packed=False)
    opened = {part: partial(twin, exact=twins[part]) if part in twins else as_it_lies for part in parts(model)}
    said = list(answers_of(folder, model, questions, opened))
    answered = answers()
    if not all(np.isfinite(answer.counted).all() for both in answered for answer in both):
        raise WeightsError(
            "With these weights the model's outputs are infinite or no numbers, in float32 and in PyTorch too.",
            "are they damaged, or of another model?",
        )
    spread = np.std(np.concatenate([whole.want.ravel() for whole, _ in answered]))
    sofar = _Worst(max(FLOOR, TOLERANCE * float(spread)))
    for which, what, got, columns in said:
        (whole, pieces), padding = answered[which], questions[which].feed["attention_mask"] == 0
        if columns is not None:
            sofar.compare(what, got, pieces.want[:, columns], pieces.clear[:, columns])
        else:
            sofar.compare(what, got, whole.want, whole.clear if by_token(model) else (whole.clear | padding).all(1))
    remark = SAME if _varied(answered) <= sofar.tolerance else None
    return Verification(
        sofar.difference, sofar.tolerance, sofar.values, f"onnxruntime {ort.__version__}", remark=remark
    )


def _varied(answered: Sequence[tuple[Answer, Answer]]) -> float:
    """By how much a number of the outputs, a logit say, differs at most from token to token, or from text to text."""
    rows = np.concatenate([whole.counted for whole, _ in answered])
    return float(np.ptp(rows, axis=0).max()) if len(rows) else 0.0


def answers_of(
    folder: Path,
    model: Model,
    questions: Sequence[Question],
    opened: Mapping[Part, Callable[[Path], ort.InferenceSession]],
) -> Iterator[tuple[int, str, Array, list[int] | None]]:
    """(which question, by what, ONNX Runtime's answer, its columns where it is of a text in pieces)

    opened: how each graph is. Raises VerificationError where ONNX Runtime refuses one.
    """
    files = {part: folder / file for part, file in parts(model).items()}
    crossed: list[dict[str, Array]] = [{} for _ in questions]
    if "encoder" in files:
        encoder = Graph(files["encoder"], opened["encoder"])
        crossed = [encoder.run(question.feed) for question in questions]
    if "cached" in files:
        cached = Graph(files["cached"], opened["cached"])
        for i, (question, cross) in enumerate(zip(questions, crossed, strict=True)):
            got, columns = stepped(cached, question.feed | cross, question.cuts)
            yield i, f"{files['cached'].name}, read in pieces of {question.cuts}", got, columns
    whole = Graph(files["logits"], opened["logits"])
    for i, question in enumerate(questions):
        yield i, files["logits"].name, whole.run(question.feed)[result(model)[0]], None


def on_cpu(path: Path, packed: bool = True) -> ort.InferenceSession:
    """A session with an ONNX file as it is. Raises what ONNX Runtime raises.

    packed: each weight is copied into the order that its kernel likes best, which pays after some runs.
    """
    options = session_options(path)
    options.log_severity_level = 4  # errors are raised, and told by whoever catches them
    if not packed:
        options.add_session_config_entry("session.disable_prepacking", "1")
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


class Graph:
    """A session that takes what it needs from a larger set of inputs."""

    def __init__(self, path: Path, opened: Callable[[Path], ort.InferenceSession] = on_cpu) -> None:
        self.path = path
        try:
            self.session = opened(path)
        except ORT_ERRORS as error:
            raise VerificationError(f"ONNX Runtime does not load {path.name}: {error}") from error
        self.inputs = {i.name: i.shape for i in self.session.get_inputs()}
        self.outputs = [o.name for o in self.session.get_outputs()]

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Every output by name."""
        try:
            values = self.session.run(None, {name: feed[name] for name in self.inputs})
        except ORT_ERRORS as error:
            raise VerificationError(f"ONNX Runtime does not run {self.path.name}: {error}") from error
        return dict(zip(self.outputs, values, strict=True))


def stepped(graph: Graph, feed: Mapping[str, Array], cuts: Sequence[int]) -> tuple[Array, list[int]]:
    """A text read in pieces as a runtime does it, and the columns that came out of it: all, or each piece's last.

    Raises VerificationError where ONNX Runtime refuses, or gives another number of them.
    """
    fixed = {name: host(value) for name, value in feed.items() if name in graph.inputs and name not in _OF_A_CALL}
    state = Decoding(graph.session, "cpu", len(feed["input_ids"]), fixed, room=sum(cuts))
    pieces: list[Array] = []
    columns: list[int] = []
    start = 0
    for n in cuts:
        end = start + n
        types = feed["token_type_ids"][:, start:end]
        try:
            out = state.step(feed["input_ids"][:, start:end], feed["attention_mask"][:, start:end], types).copy()
        except RunError as error:
            raise VerificationError(f"ONNX Runtime does not run {graph.path.name}: {error}") from error
        if out.shape[:2] not in ((len(feed["input_ids"]), rows) for rows in (1, n)):
            raise VerificationError(f"{graph.path.name} gives {out.shape} for {n} tokens.", REPORT)
        pieces.append(out)
        columns += range(end - out.shape[1], end)
        start = end
    return np.concatenate(pieces, 1), columns


class _Worst:
    """The largest difference so far."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance, self.difference, self.values = tolerance, 0.0, 0

    def compare(self, what: str, got: Array, want: Array, rows: Array) -> None:
        if got.shape != want.shape:
            raise VerificationError(f"{what}: ONNX Runtime gives {got.shape}, and PyTorch {want.shape}.", REPORT)
        off = np.abs(got - want).max(-1)[rows]
        difference = float(off.max(initial=0.0))
        if not difference <= self.tolerance:  # not a number fails as well
            raise VerificationError(
                f"{what}: ONNX Runtime differs from PyTorch by {difference:.3g}; "
                f"float32 rounding accounts for {self.tolerance:.3g}.",
                REPORT,
            )
        self.difference, self.values = max(self.difference, difference), self.values + off.size * got.shape[-1]
