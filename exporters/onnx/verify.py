"""ONNX Runtime against PyTorch: an exported folder computes what the built model computes, or it does not get its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import torch
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors
from torch import Tensor

from archspec.errors import VerificationError
from archspec.exporters.runtime.decode import Decoding, host
from archspec.exporters.runtime.options import session_options
from archspec.exporters.torch.cache import GrowingCache
from archspec.exporters.torch.module import Transformer, build
from archspec.ops.attention import Attention
from archspec.ops.base import walk
from archspec.ops.embedding import LearnedPositions
from archspec.ops.model import Model

from .choices import untouched, watched
from .emit import by_token, parts, result
from .graph import Array
from .measures import Measures
from .twin import Exact, twin
from .weights import Weights
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


@dataclass(frozen=True)
class Case:
    """A batch of texts, the cuts in which a cached graph reads them, whether they are padded, tokens of the source."""

    batch: int
    cuts: tuple[int, ...]
    padded: bool
    source: int


#: Inputs that are new in every call.
_OF_A_CALL = ("input_ids", "attention_mask", "token_type_ids")

#: One text and three; one token and several, after no past, a short and a long one; padding and none. Few calls of few rows, which
#: are what it costs.
CASES = (Case(1, (1, 31, 1), False, 5), Case(3, (4, 1, 2), True, 11))


@dataclass(frozen=True)
class Verification:
    """How far ONNX Runtime was from PyTorch at most, and how far it might have been; what a precision costs."""

    difference: float
    tolerance: float
    values: int
    """Numbers that were compared."""
    runtime: str
    measures: tuple[Measures, ...] = ()
    remark: str | None = None


def verify(
    folder: Path,
    model: Model,
    module: Transformer,
    cases: Sequence[Case] = CASES,
    twins: Mapping[Part, Exact] | None = None,
    context: int | None = None,
) -> Verification:
    """Compare the graphs of an exported folder with the built model in float32, on the CPU.

    Whole texts through `logits`, the same in pieces through `cached`, with and without padding. Equal means: no number is
    further off than `TOLERANCE` times the standard deviation of the model's outputs.
    twins: compare the graphs' twins in float32; the module has weights as the folder has them.
    context: the longest text that the graphs were made for.

    Raises:
        VerificationError: they are not equal, or ONNX Runtime refuses a graph.
    """
    files = {part: folder / file for part, file in parts(model).items()}
    opened = {part: partial(twin, exact=exact) for part, exact in (twins or {}).items()}
    as_it_lies = partial(on_cpu, packed=False)
    shortened = [fitting(case, model, context) for case in cases]
    requests = [request(model, case, seed) for seed, case in enumerate(shortened)]
    with evaluating(module):
        wanted = [_wanted(module, r) for r in requests]
        in_pieces = wanted
        if "cached" in files and model.grows:
            in_pieces = [_wanted(module, r, case.cuts) for case, r in zip(shortened, requests, strict=True)]
    spread = np.std(np.concatenate([want.ravel() for want, _ in wanted]))
    sofar = _Worst(max(FLOOR, TOLERANCE * float(spread)))
    crossed: list[dict[str, Array]] = [{} for _ in requests]
    if "encoder" in files:
        encoder = Graph(files["encoder"], opened.get("encoder", as_it_lies))
        crossed = [encoder.run(r) for r in requests]
    if "cached" in files:
        cached = Graph(files["cached"], opened.get("cached", as_it_lies))
        for case, r, cross, (want, clear) in zip(shortened, requests, crossed, in_pieces, strict=True):
            got, columns = stepped(cached, r | cross, case.cuts)
            what = f"{files['cached'].name}, read in pieces of {case.cuts}"
            sofar.compare(what, got, want[:, columns], clear[:, columns])
    whole = Graph(files["logits"], opened.get("logits", as_it_lies))
    for r, (want, clear) in zip(requests, wanted, strict=True):
        sofar.compare(files["logits"].name, whole.run(r)[result(model)[0]], want, clear)
    return Verification(sofar.difference, sofar.tolerance, sofar.values, f"onnxruntime {ort.__version__}")


def _wanted(module: Transformer, feed: Mapping[str, Array], cuts: Sequence[int] | None = None) -> tuple[Array, Array]:
    """What PyTorch says, and which of it binds: B T where an output has a row for each token, B where it has not.

    Padding does not, nor does what follows from a choice of experts that rounding decides.
    """
    model = module.op
    with watched(module) as seen:
        want = reference(module, feed, cuts)
    tokens = torch.from_numpy(feed["attention_mask"] > 0)
    clear = untouched(seen, tokens, causal=model.form == "decoder" and not _has_prefix(model))
    return want, (clear if by_token(model) else (clear | ~tokens).all(1)).numpy()


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
    """A text read in pieces as a runtime does it, and the columns that came out of it."""
    fixed = {name: host(value) for name, value in feed.items() if name in graph.inputs and name not in _OF_A_CALL}
    state = Decoding(graph.session, "cpu", len(feed["input_ids"]), fixed, room=sum(cuts))
    pieces: list[Array] = []
    columns: list[int] = []
    start = 0
    for n in cuts:
        end = start + n
        types = feed["token_type_ids"][:, start:end]
        out = state.step(feed["input_ids"][:, start:end], feed["attention_mask"][:, start:end], types).copy()
        pieces.append(out)
        columns += range(end - out.shape[1], end)
        start = end
    return np.concatenate(pieces, 1), columns


def request(model: Model, case: Case, seed: int) -> dict[str, Array]:
    """Random inputs by the names of the graphs' inputs. The decoder's padding stands before a text, an encoder's after it."""
    rng = np.random.default_rng(seed)
    length = sum(case.cuts)
    _, main = model.main
    source = (model.encoder or main).embedding
    mask = _mask(case.batch, length, case.padded, left=model.form != "encoder")
    return {
        "input_ids": rng.integers(main.embedding.vocab, size=(case.batch, length)),
        "attention_mask": mask,
        "token_type_ids": rng.integers(main.embedding.token_types or 1, size=(case.batch, length)),
        "prefix_length": rng.integers(max(case.cuts[0] - 1, 1), size=case.batch),  # all of it in the first piece
        "source_ids": rng.integers(source.vocab, size=(case.batch, case.source)),
        "source_mask": _mask(case.batch, case.source, case.padded, left=False),
        "source_token_type_ids": rng.integers(source.token_types or 1, size=(case.batch, case.source)),
    }


def reference(module: Transformer, feed: Mapping[str, Array], cuts: Sequence[int] | None = None) -> Array:
    """What PyTorch says to a request: whole, or read in pieces with a cache."""
    given: dict[str, Any] = {}
    model = module.op
    at = {name: torch.from_numpy(value) for name, value in feed.items()}
    if _has_prefix(model):
        given["prefix_length"] = at["prefix_length"]
    if model.form == "encoder_decoder":
        given |= {"source": at["source_ids"], "source_mask": at["source_mask"]}
        assert model.encoder is not None
        if model.encoder.embedding.token_types:
            given["source_types"] = at["source_token_type_ids"]
    if cuts is not None:
        given["cache"] = GrowingCache()
    pieces: list[Tensor] = []
    start = 0
    with torch.no_grad():
        for n in cuts or (at["input_ids"].shape[1],):
            here = slice(start, start + n)
            if model.main[1].embedding.token_types:
                given["token_types"] = at["token_type_ids"][:, here]
            pieces.append(module(at["input_ids"][:, here], at["attention_mask"][:, : here.stop], **given))
            start += n
            if cuts is not None:
                given = {name: value for name, value in given.items() if not name.startswith("source")}
    out: Array = (torch.cat(pieces, 1) if cuts else pieces[0]).numpy()
    return out


def loaded(model: Model, weights: Weights) -> Transformer:
    """The built model in float32, on the memory that `weights` gives where that is float32 already."""
    module = build(model, device="meta", dtype="float32")
    state = {t.path: torch.from_numpy(np.ascontiguousarray(weights(t.path), np.float32)) for t in model.tensors()}
    module.load_state_dict(state, assign=True)
    return module


class _Worst:
    """The largest difference so far."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance, self.difference, self.values = tolerance, 0.0, 0

    def compare(self, what: str, got: Array, want: Array, rows: Array) -> None:
        got, want = got[rows], want[rows]
        difference = float(np.abs(got - want).max(initial=0.0))
        if not difference <= self.tolerance:  # not a number fails as well
            raise VerificationError(
                f"{what}: ONNX Runtime differs from PyTorch by {difference:.3g}; "
                f"float32 rounding accounts for {self.tolerance:.3g}.",
                "this is a fault of archspec: please report it, with the spec",
            )
        self.difference, self.values = max(self.difference, difference), self.values + got.size


@contextmanager
def evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Without dropout, and left as it was."""
    training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(training)


def _mask(batch: int, length: int, padded: bool, left: bool) -> Array:
    mask = np.ones((batch, length), np.int64)
    if padded and length > 2:
        mask[-1, slice(None, 2) if left else slice(-2, None)] = 0
    return mask


def fitting(case: Case, model: Model, context: int | None = None) -> Case:
    """A case that fits into the model's tables of positions, and into the context."""
    limits = {
        s.embedding.stream: s.embedding.position.rows - s.embedding.position.offset
        for s in model.stacks().values()
        if isinstance(s.embedding.position, LearnedPositions)
    }
    cuts: list[int] = []
    room = min(limits.get("tokens", sum(case.cuts)), context or sum(case.cuts))
    for n in case.cuts:
        cuts.append(min(n, room - sum(cuts)))
    source = min(case.source, limits.get("source", case.source))
    return Case(case.batch, tuple(n for n in cuts if n), case.padded, source)


def _has_prefix(model: Model) -> bool:
    return any(isinstance(op, Attention) and op.scores.mask.kind == "prefix" for _, op, _ in walk(model))
