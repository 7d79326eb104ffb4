"""What PyTorch answers: the built model in float32, on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from archspec.exporters.torch.arrays import tensor_of
from archspec.exporters.torch.cache import GrowingCache
from archspec.exporters.torch.module import Transformer, build
from archspec.ops.attention import Attention
from archspec.ops.base import walk
from archspec.ops.model import Model

from .choices import untouched, watched
from .questions import Answer, Array, Question

if TYPE_CHECKING:
    from .weights import Weights


def answers(module: Transformer, questions: Sequence[Question]) -> list[tuple[Answer, Answer]]:
    """To each question: to the text as a whole, and to the text in pieces."""
    with evaluating(module):
        return [_both(module, question) for question in questions]


def _both(module: Transformer, question: Question) -> tuple[Answer, Answer]:
    whole = _answer(module, question.feed)
    steps = module.op.form != "encoder" and whole.want.ndim == 3  # a row for each token
    return whole, _answer(module, question.feed, question.cuts) if module.op.grows and steps else whole


def _answer(module: Transformer, feed: Mapping[str, Array], cuts: Sequence[int] | None = None) -> Answer:
    with watched(module) as seen:
        want = reference(module, feed, cuts)
    tokens = torch.from_numpy(feed["attention_mask"] > 0)
    causal = module.op.form == "decoder" and not _has_prefix(module.op)
    return Answer(want, untouched(seen, tokens, causal).numpy())


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
    state = {t.path: tensor_of(np.ascontiguousarray(weights(t.path), np.float32)) for t in model.tensors()}
    module.load_state_dict(state, assign=True)
    return module


@contextmanager
def evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Without dropout, and left as it was."""
    training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(training)


def _has_prefix(model: Model) -> bool:
    return any(isinstance(op, Attention) and op.scores.mask.kind == "prefix" for _, op, _ in walk(model))
