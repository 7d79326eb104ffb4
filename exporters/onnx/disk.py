"""A file that is written once, from start to end: one thread hashes and another writes while the next bytes are gathered."""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from .weights import Array

#: Bytes that are hashed and written at a time, and the number of such buffers: one is filled while others are on their way.
BUFFER, BUFFERS = 8 << 20, 4
#: From this size on a file goes to the disk past the page cache, whose upkeep costs more of a core than hashing does. A smaller one
#: stays there: it is likely to be read at once.
DIRECT = 1 << 30


class Sink:
    """Takes the bytes of a file in order."""

    def __init__(self, file: int, hasher: ThreadPoolExecutor, writer: ThreadPoolExecutor) -> None:
        self.file, self.hasher, self.writer = file, hasher, writer
        self.digest, self.size = hashlib.sha256(), 0
        #: On pages of their own, as writing past the cache demands.
        self.buffers: list[Array] = [np.frombuffer(mmap.mmap(-1, BUFFER), np.uint8) for _ in range(BUFFERS)]
        self.on_their_way: list[list[Future[None]]] = [[] for _ in self.buffers]
        self.turn = self.filled = 0

    def write(self, data: Array) -> None:
        """The bytes of an array, row by row. Raises OSError for what could not be written before."""
        rest = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        while len(rest):
            free = self.buffers[self.turn][self.filled :]
            part, rest = rest[: len(free)], rest[len(free) :]
            free[: len(part)] = part
            self.filled += len(part)
            self.size += len(part)
            if self.filled == BUFFER:
                self._send()

    def finish(self) -> None:
        """Wait until all is hashed and written."""
        self._send()
        for _ in self.buffers:
            self._next()
        os.ftruncate(self.file, self.size)

    def _send(self) -> None:
        """Hash and write what is gathered, in whole pages, and go on to the next buffer."""
        buffer = self.buffers[self.turn]
        pages = buffer[: -(-self.filled // mmap.PAGESIZE) * mmap.PAGESIZE]
        self.on_their_way[self.turn] = [
            self.hasher.submit(self.digest.update, buffer[: self.filled].data),
            self.writer.submit(_put, self.file, pages.data),
        ]
        self._next()

    def _next(self) -> None:
        self.turn, self.filled = (self.turn + 1) % BUFFERS, 0
        for future in self.on_their_way[self.turn]:
            future.result()


@contextmanager
def pouring(path: Path, size: int) -> Iterator[Sink]:
    """A new file that will have `size` bytes. Raises OSError where it cannot be written."""
    file = _opened(path, size)
    try:
        with ThreadPoolExecutor(1) as hasher, ThreadPoolExecutor(1) as writer:
            sink = Sink(file, hasher, writer)
            yield sink
            sink.finish()
    finally:
        os.close(file)


def _opened(path: Path, size: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    if size >= DIRECT and hasattr(os, "O_DIRECT"):
        with suppress(OSError):  # some file systems have no way but the cache; some of those say so at a first write
            file = os.open(path, flags | os.O_DIRECT, 0o666)
            try:
                os.pwrite(file, mmap.mmap(-1, mmap.PAGESIZE), 0)  # written over
            except OSError:
                os.close(file)
                raise
            return file
    return os.open(path, flags, 0o666)


def _put(file: int, data: memoryview) -> None:
    """Write all of it, and ask the system to send it to the disk now, while the next is made, instead of all in the end."""
    start = os.lseek(file, 0, os.SEEK_CUR)
    written = 0
    while written < len(data):
        written += os.write(file, data[written:])
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file, start, written, os.POSIX_FADV_DONTNEED)
