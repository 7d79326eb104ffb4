"""Pieces of tensors, made by several threads ahead of the one that writes them."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np

from .weights import Array, Reading, Streamed

#: Bytes that are made and not yet written, beside the tensor at hand.
AHEAD = 64 << 20
#: Rows that are transposed at a time, and elements between them, so that they do not fall on the same lines of a cache.
TILE, APART = 64, 32


@dataclass(frozen=True)
class Promise:
    """Some of a tensor in the making: what it comes in, one piece after the other."""

    nbytes: int
    wait: Callable[[], Iterable[Array]]


def pieces(tensors: Sequence[Streamed]) -> Iterator[tuple[int, Array]]:
    """(which tensor, some of its numbers as they are stored): all of them, in order.

    In memory at a time: `AHEAD`, and what is transposed whole or waits for its turn beside what it was made with.
    """
    promised: deque[tuple[int, Promise]] = deque()
    ahead = 0
    with _pool() as pool:
        for i, promise in _promises(tensors, pool):
            promised.append((i, promise))
            ahead += promise.nbytes
            while ahead - promised[0][1].nbytes > AHEAD:
                at, first = promised.popleft()
                ahead -= first.nbytes
                yield from ((at, piece) for piece in first.wait())
        while promised:
            at, first = promised.popleft()
            yield from ((at, piece) for piece in first.wait())


@contextmanager
def _pool() -> Iterator[ThreadPoolExecutor]:
    """As many threads as there are cores; in each, torch (where a reader uses it) calls no others to help."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 0
    alone = partial(torch.set_num_threads, 1) if torch else None
    pool = ThreadPoolExecutor(min(len(os.sched_getaffinity(0)), 8), initializer=alone)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        if torch:  # what new threads begin with
            torch.set_num_threads(before)


def _promises(tensors: Sequence[Streamed], pool: ThreadPoolExecutor) -> Iterator[tuple[int, Promise]]:
    """Work for the pool, submitted as it is asked for."""
    together: dict[Reading, list[Streamed]] = {}
    for tensor in tensors:
        together.setdefault(tensor.reading, []).append(tensor)
    beside: dict[Streamed, Promise] = {}
    for i, tensor in enumerate(tensors):
        if tensor in beside:
            yield i, beside.pop(tensor)
            continue
        others = [other for other in together[tensor.reading] if other is not tensor]
        made = _transposed if tensor.reading.transposed else _in_order
        first, *rest = made([tensor, *others], pool)
        beside |= {other: promise for other, (promise,) in zip(others, rest, strict=True)}
        for promise in first:
            yield i, promise


def _in_order(tensors: Sequence[Streamed], pool: ThreadPoolExecutor) -> Iterator[Iterator[Promise]]:
    """The first as its chunks; the others, which are made with it, when all of them are there."""
    kept: list[list[Array]] = [[] for _ in tensors[1:]]
    first, *others = tensors

    def taken(future: Future[list[Array]]) -> list[Array]:
        piece, *rest = future.result()
        for mine, more in zip(kept, rest, strict=True):
            mine.append(more)
        return [piece]

    def each() -> Iterator[Promise]:
        for chunk in first.chunks():
            future = pool.submit(_read, tensors, *chunk)
            share = first.nbytes * (chunk[1] - chunk[0]) // first.reading.rows
            yield Promise(share, partial(taken, future))

    yield each()
    for other, mine in zip(others, kept, strict=True):
        yield iter([Promise(other.nbytes, partial(iter, mine))])


def _transposed(tensors: Sequence[Streamed], pool: ThreadPoolExecutor) -> Iterator[Iterator[Promise]]:
    """Each transposed in chunks, which stand side by side when all are there."""
    read = [
        pool.submit(lambda chunk: [transposed(rows) for rows in _read(tensors, *chunk)], c) for c in tensors[0].chunks()
    ]

    def joined(i: int) -> Iterator[Array]:
        chunks = [future.result()[i] for future in read]
        step = -(-len(chunks[0]) // len(chunks))
        for start in range(0, len(chunks[0]), step):
            yield np.concatenate([chunk[start : start + step] for chunk in chunks], axis=1)

    for i, tensor in enumerate(tensors):
        yield iter([Promise(tensor.nbytes, partial(joined, i))])


def _read(tensors: Sequence[Streamed], start: int, stop: int) -> list[Array]:
    """Those rows of tensors that are made together, as they are stored."""
    made = tensors[0].reading.read(start, stop)
    return [t.narrowed(made[t.index]) for t in tensors]


def transposed(rows: Array) -> Array:
    """The transpose of a matrix, as it lies."""
    if rows.strides[0] <= rows.strides[-1]:  # it is one already
        return rows.T
    out: Array = np.empty(rows.shape[::-1], rows.dtype)
    spaced = np.empty((TILE, rows.shape[1] + APART), rows.dtype)[:, : rows.shape[1]]
    for start in range(0, len(rows), TILE):
        tile = spaced[: len(rows) - start]
        tile[:] = rows[start : start + TILE]
        out[:, start : start + TILE] = tile.T
    return out
