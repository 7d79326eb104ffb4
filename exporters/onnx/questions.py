"""What ONNX Runtime and PyTorch are both asked: random texts that a model can read, whole and in pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from archspec.ops.embedding import LearnedPositions
from archspec.ops.model import Model

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """A batch of texts, the cuts in which a cached graph reads them, whether they are padded, tokens of the source."""

    batch: int
    cuts: tuple[int, ...]
    padded: bool
    source: int


#: One text and three; one token and several, after no past, a short and a long one; padding and none. Few calls of few rows, which
#: are what it costs; 24 tokens reach past the distances that T5 tells apart one by one.
CASES = (Case(1, (1, 22, 1), False, 5), Case(3, (4, 1, 2), True, 11))


@dataclass(frozen=True)
class Question:
    """Inputs by the names that graphs have for them, and the cuts in which the text may be read."""

    feed: dict[str, Array]
    cuts: tuple[int, ...]


@dataclass(frozen=True)
class Answer:
    """What the head gives, and which tokens of the text (B T) it may be held against.

    Padding may not, nor may what follows from a choice of experts that rounding decides.
    """

    want: Array
    clear: Array

    @property
    def counted(self) -> Array:
        """What the head gives of those tokens, or of the whole text."""
        counted: Array = self.want[self.clear] if self.want.ndim == 3 else self.want
        return counted


def questions(model: Model, context: int | None = None) -> list[Question]:
    """`CASES` as a model can read them. context: the longest text that its graphs were made for."""
    shortened = [fitting(case, model, context) for case in CASES]
    return [Question(request(model, case, seed), case.cuts) for seed, case in enumerate(shortened)]


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


def _mask(batch: int, length: int, padded: bool, left: bool) -> Array:
    mask = np.ones((batch, length), np.int64)
    if padded and length > 2:
        mask[-1, slice(None, 2) if left else slice(-2, None)] = 0
    return mask
