"""The loop of generation: read the prompts, choose a token for each row, go on until every row has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from archspec.errors import ArchspecError
from archspec.exporters.units import many

from .decode import Decoding
from .ids import Ids
from .sampling import Sampling, sample
from .search import Search

Ended = Literal["stop", "length"]

#: A long prompt is read in pieces of so many tokens: scores of queries against keys would take memory with its square.
PIECE = 1024
#: New tokens that buffers have room for at first, where nobody says how many there will be.
ROOM = 256


class ContextError(ArchspecError):
    """A text is longer than the model's context, or generation has come to its end."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of generation, for each row of the batch."""

    #: The new token; None where the row had ended before. A stop token is given too, once.
    tokens: tuple[int | None, ...]
    #: Why the row has ended: `stop`, a stop token; `length`, all tokens that were asked for or the context's end. None: it goes on.
    ended: tuple[Ended | None, ...]


@dataclass(frozen=True)
class Limits:
    """When to stop. most: new tokens; None: to the context's end. slide: at the context's end drop its first half and go on."""

    stop: frozenset[int]
    most: int | None
    context: int | None
    slide: bool = False

    def full(self, length: int) -> bool:
        """Has a text of so many tokens come to its end? Its last token is not read."""
        return self.context is not None and length > self.context and not self.slide

    def ended(self, token: int, length: int, made: int) -> Ended | None:
        """Why a text of so many tokens ends with this one, of which so many were made; None: it goes on."""
        if token in self.stop:
            return "stop"
        return "length" if made == self.most or self.full(length) else None

    def ways(self, made: int) -> str:
        """What to ask for instead, where the context has room for so many new tokens."""
        assert self.most is not None
        assert self.context is not None
        prompt = self.context + 1 - self.most  # the last token made is not read
        shorter = f"shorten the prompt to {many(prompt, 'token')}, " if prompt > 0 else ""
        return f"ask for at most {made} (-n), {shorter}or let the context slide (--slide)"

    def room(self, prompt: int) -> int:
        """Columns that a text of so many tokens will come to, as far as that is known."""
        columns = prompt + (self.most or ROOM)
        return columns if self.context is None else min(columns, max(prompt, self.context))


#: Tokens of its prompt that each row has still, and columns -> a state.
Begin = Callable[[Sequence[int], int], Decoding]


def generated(
    begin: Begin, prompts: Ids, sampling: Sampling, search: Search, limits: Limits, whole: bool
) -> Iterator[Step]:
    """Steps until every row has ended.

    begin: gives the state of rows, each with so many tokens of its prompt, with room for so many columns.
    whole: a prompt must be read in one piece.
    Raises ContextError where a row comes to the context's end before `most` tokens are made, unless it slides.
    """
    texts, given = [list(prompt) for prompt in prompts], [len(prompt) for prompt in prompts]
    streams = sampling.streams(len(texts))
    ended: list[Ended | None] = [None] * len(texts)
    state, logits = _read(begin, texts, given, limits, whole)
    made = 0
    while True:
        running = [i for i, e in enumerate(ended) if e is None]
        # Rows that have ended are padding through and through: their logits have no meaning.
        chosen = sample(
            logits if len(running) == len(ended) else logits[running],
            sampling,
            [streams[i] for i in running],
            search.never,
        )
        made += 1
        tokens: list[int | None] = [None] * len(ended)
        for i, token in zip(running, map(int, chosen), strict=True):
            ended[i] = limits.ended(token, len(texts[i]) + 1, made)
            tokens[i] = token if ended[i] != "length" or search.last is None else search.last
            texts[i].append(token)
        yield Step(tuple(tokens), tuple(ended))
        if limits.most is not None and made < limits.most and "length" in ended:
            raise ContextError(
                f"the context of {limits.context} tokens is full after {made} new ones", limits.ways(made)
            )
        if None not in ended:
            return
        longest = max(len(t) for t, e in zip(texts, ended, strict=True) if e is None)
        if limits.context is not None and longest > limits.context:
            before = texts
            texts = [_slid(t, limits.context) if e is None else t[-1:] for t, e in zip(texts, ended, strict=True)]
            # what was dropped was of the prompt first: a prefix mask lets see both ways what is left of it
            given = [max(0, n - len(b) + len(t)) for n, b, t in zip(given, before, texts, strict=True)]
            state, logits = _read(begin, texts, given, limits, whole)
            state.retire([i for i, e in enumerate(ended) if e])
            continue
        state.retire([i for i in running if ended[i]])
        ids = np.array([[token or 0] for token in tokens], np.int64)
        logits = state.step(ids, np.array([[int(e is None)] for e in ended], np.int64))[:, -1]


def _slid(text: list[int], context: int) -> list[int]:
    """A text that fits: one that is too long loses what stands before half a context."""
    return text if len(text) <= context else text[-max(1, context // 2) :]


def _read(
    begin: Begin, texts: Ids, given: Sequence[int], limits: Limits, whole: bool
) -> tuple[Decoding, NDArray[np.floating[Any]]]:
    """A state that has read the texts, and the logits B V of their last tokens."""
    ids, mask = padded(texts, left=True)
    length = ids.shape[1]
    state = begin(given, limits.room(length))
    piece = length if whole else PIECE
    for at in range(0, length, piece):
        logits = state.step(ids[:, at : at + piece], mask[:, at : at + piece])
    return state, logits[:, -1]


def padded(rows: Ids, left: bool = False) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of any lengths -> ids B T, filled up with 0, and their mask."""
    width = max(map(len, rows))
    ids, mask = np.zeros((len(rows), width), np.int64), np.zeros((len(rows), width), np.int64)
    for i, row in enumerate(rows):
        at = slice(width - len(row), width) if left else slice(0, len(row))
        ids[i, at], mask[i, at] = row, 1
    return ids, mask
