"""What the machine can do: bytes read a second, and products a second. What a model does is a share of that.

A step of decoding reads every weight once and hardly computes; a prompt computes and hardly reads. So one is held against a plain
streaming read, the other against ONNX Runtime's own matrix product at the model's size.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import helper

from archspec.errors import DeviceError
from archspec.exporters.runtime.cuda import card_bytes, preload
from archspec.exporters.runtime.device import PROVIDERS

#: Bytes that are read: more than any cache holds.
READ = 1 << 29
#: A probe is the best of so many turns: what the machine can do, not what it did while something else ran.
TURNS = 5
#: Products in a row, so that starting one on the card does not count.
ROW = {"cpu": 1, "cuda": 8}

Where = Literal["cpu", "cuda"]


class Machine:
    """The probes.

    threads: as many as the engines have. half: products on a card in float16, for a model that computes in 16 bits.
    """

    def __init__(self, device: Where, threads: int, half: bool = False) -> None:
        self._device, self._threads = device, threads
        self._dtype = np.float16 if half and device == "cuda" else np.float32  # on the CPU they would be float32 inside
        self._products: dict[tuple[int, int, int], Callable[[], object]] = {}
        if device == "cpu":
            self._pool = ThreadPoolExecutor(threads)
            self._reads, self._bytes = [self._reduction(huge) for huge in (True, False)], READ
        else:
            preload()
            self._reads, self._bytes = [self._addition()], 3 * READ

    def read(self) -> tuple[float, float]:
        """Bytes a second from memory: in whatever pages are best, and in ordinary ones, which is where programs' memory lies."""
        found = [self._bytes / _best(read) for read in self._reads]
        return max(found), found[-1]

    def multiply(self, rows: int, inp: int, out: int) -> float:
        """FLOP/s of (rows, inp) x (inp, out); the second one is a constant, as a model's."""
        size = rows, inp, out
        if size not in self._products:
            self._products[size] = self._product(*size)
        return 2.0 * rows * inp * out * ROW[self._device] / _best(self._products[size])

    def used(self) -> int:
        """Bytes of the card's memory that are taken, by whomever; 0 on the CPU."""
        return card_bytes() if self._device == "cuda" else 0

    def _reduction(self, huge: bool) -> Callable[[], object]:
        """Every thread folds its part of a large array into one number. numpy lets go of its lock meanwhile.

        huge: in pages of 2 MiB, where the system has them: a core looks ahead to the end of a page only.
        """
        memory = mmap.mmap(-1, READ, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if huge and hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        array = np.frombuffer(memory, np.int64)
        array[:] = 1
        parts = np.array_split(array, self._threads)
        return lambda: list(self._pool.map(np.bitwise_or.reduce, parts))

    def _addition(self) -> Callable[[], object]:
        """c = a + b on the card: two arrays read, one written."""
        values = {
            name: onnxruntime.OrtValue.ortvalue_from_shape_and_type([READ // 4], np.float32, self._device)
            for name in "abc"
        }
        return self._ready([helper.make_node("Add", ["a", "b"], ["c"])], values, {})

    def _product(self, rows: int, inp: int, out: int) -> Callable[[], object]:
        """x · W, or on a card x · W · W' · W · …"""
        numbers, count = np.random.default_rng(0), ROW[self._device]
        shapes = [(inp, out), (out, inp)][:count]
        weights = {
            f"w{i}": (numbers.standard_normal(shape, np.float32) / 100).astype(self._dtype)
            for i, shape in enumerate(shapes)
        }
        nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i % 2}"], [f"x{i + 1}"]) for i in range(count)]
        width = inp if count % 2 == 0 else out
        values = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(np.ones((rows, columns), self._dtype), self._device)
            for name, columns in (("x0", inp), (f"x{count}", width))
        }
        return self._ready(nodes, values, weights)

    def _ready(
        self, nodes: list[Any], values: Mapping[str, Any], constants: Mapping[str, NDArray[Any]]
    ) -> Callable[[], object]:
        """A graph that runs on `values`, the last of which is its output."""
        ports = [helper.make_tensor_value_info(k, v.element_type(), v.shape()) for k, v in values.items()]
        held = [
            helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape, a.tobytes(), raw=True)
            for name, a in constants.items()
        ]
        graph = helper.make_graph(nodes, "probe", ports[:-1], ports[-1:], held)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = self._threads
        provider = PROVIDERS[self._device]
        settings = {"use_tf32": "0"} if self._device == "cuda" else {}  # as the runtime has it
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, [provider], [settings], enable_fallback=0
        )
        if session.get_providers()[0] != provider:
            raise DeviceError(f"the probe was to run on {provider} and runs on {session.get_providers()[0]}")
        binding = session.io_binding()
        *inputs, output = values
        for name in inputs:
            binding.bind_ortvalue_input(name, values[name])
        binding.bind_ortvalue_output(output, values[output])

        def run() -> None:
            session.run_with_iobinding(binding)
            binding.synchronize_outputs()

        return run


def _best(work: Callable[[], object]) -> float:
    """Seconds of the quickest turn; a first one warms up."""
    found = []
    for _ in range(TURNS + 1):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found[1:])
