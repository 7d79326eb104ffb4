"""What the machine can do: bytes read a second, and products a second. What a model does is a share of that.

A step of decoding reads every weight once and hardly computes; a prompt computes and hardly reads. So one is held against a plain
streaming read, the other against ONNX Runtime's own matrix product at the model's size.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper

from archspec.exporters.runtime.device import PROVIDERS

#: Bytes that are read: more than any cache holds.
READ = 1 << 29
#: A probe is the best of so many turns: what the machine can do, not what it did while something else ran.
TURNS = 5
#: Products in a row, so that starting one on the card does not count.
ROW = {"cpu": 1, "cuda": 8}

_FLOAT = TensorProto.FLOAT
Where = Literal["cpu", "cuda"]


class Machine:
    """The probes. threads: as many as the engines have."""

    def __init__(self, device: Where, threads: int) -> None:
        self._device, self._threads = device, threads
        self._products: dict[tuple[int, int, int], Callable[[], object]] = {}
        if device == "cpu":
            self._pool = ThreadPoolExecutor(threads)
            self._read, self._bytes = self._reduction(), READ
        else:
            self._read, self._bytes = self._addition(), 3 * READ

    def read(self) -> float:
        """Bytes a second from memory."""
        return self._bytes / _best(self._read)

    def multiply(self, rows: int, inp: int, out: int) -> float:
        """FLOP/s of (rows, inp) x (inp, out), float32 on the CPU and float16 on a card; the weight is a constant, as a model's."""
        size = rows, inp, out
        if size not in self._products:
            self._products[size] = self._product(*size)
        return 2.0 * rows * inp * out * ROW[self._device] / _best(self._products[size])

    def used(self) -> int:
        """Bytes of the card's memory that are taken, by whomever; 0 on the CPU."""
        return card_bytes() if self._device == "cuda" else 0

    def _reduction(self) -> Callable[[], object]:
        """Every thread folds its part of a large array into one number. numpy lets go of its lock meanwhile."""
        parts = np.array_split(np.ones(READ // 8, np.int64), self._threads)
        return lambda: list(self._pool.map(np.bitwise_or.reduce, parts))

    def _addition(self) -> Callable[[], object]:
        """c = a + b on the card: two arrays read, one written."""
        ports = [helper.make_tensor_value_info(name, _FLOAT, [None]) for name in "abc"]
        run = self._session([helper.make_node("Add", ["a", "b"], ["c"])], ports, {})
        a, b, c = (
            onnxruntime.OrtValue.ortvalue_from_shape_and_type([READ // 4], np.float32, self._device) for _ in ports
        )
        return run({"a": a, "b": b}, {"c": c})

    def _product(self, rows: int, inp: int, out: int) -> Callable[[], object]:
        """x · W, or on a card x · W · W' · W · …"""
        dtype = np.float32 if self._device == "cpu" else np.float16
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        numbers = np.random.default_rng(0)
        weights = {"w0": (inp, out), "w1": (out, inp)}
        filled = {k: (numbers.standard_normal(s, np.float32) / 100).astype(dtype) for k, s in weights.items()}
        count = ROW[self._device]
        nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i % 2}"], [f"x{i + 1}"]) for i in range(count)]
        width = inp if count % 2 == 0 else out
        ports = [
            helper.make_tensor_value_info("x0", kind, [rows, inp]),
            helper.make_tensor_value_info(f"x{count}", kind, [rows, width]),
        ]
        run = self._session(nodes, ports, {k: filled[k] for k in list(filled)[:count]})
        x = onnxruntime.OrtValue.ortvalue_from_numpy(np.ones((rows, inp), dtype), self._device)
        y = onnxruntime.OrtValue.ortvalue_from_numpy(np.empty((rows, width), dtype), self._device)
        return run({"x0": x}, {f"x{count}": y})

    def _session(
        self, nodes: list[Any], ports: list[Any], constants: Mapping[str, NDArray[Any]]
    ) -> Callable[[Mapping[str, Any], Mapping[str, Any]], Callable[[], object]]:
        """A graph whose last port is its output. Given its values it is ready to run."""
        held = [
            helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape, a.tobytes(), raw=True)
            for name, a in constants.items()
        ]
        graph = helper.make_graph(nodes, "probe", ports[:-1], ports[-1:], held)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = self._threads
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, [PROVIDERS[self._device]])

        def bound(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Callable[[], object]:
            binding = session.io_binding()
            for name, value in inputs.items():
                binding.bind_ortvalue_input(name, value)
            for name, value in outputs.items():
                binding.bind_ortvalue_output(name, value)

            def run() -> None:
                session.run_with_iobinding(binding)
                binding.synchronize_outputs()

            return run

        return bound


def card_bytes() -> int:
    """Bytes taken of the first card, as the driver says, in a process that uses it."""
    driver = ctypes.CDLL("libcuda.so.1")
    context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.cuCtxSetCurrent(context)
    driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    return total.value - free.value


def _best(work: Callable[[], object]) -> float:
    """Seconds of the quickest turn; a first one warms up."""
    found = []
    for _ in range(TURNS + 1):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found[1:])
