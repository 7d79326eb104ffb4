"""Serves a graph on ONNX Runtime alone, by I/O binding: archspec's, genai's or optimum's. No runtime around it."""

import time
from itertools import pairwise

import numpy as np
import onnxruntime as ort
from remote import serve

_NUMBERS = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


class Engine:
    """file: the graph. heads, width: of its keys.

    room: columns of a cache that it reads and writes in one place; None: every call gives a new one.
    """

    def __init__(self, file: str, threads: int, vocab: int, heads: int, width: int, room: int | None = None) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self.session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self.inputs = {i.name: i for i in self.session.get_inputs()}
        self.past = [name for name in self.inputs if name.startswith("past")]
        given = {o.name for o in self.session.get_outputs()}
        self.present = [n.replace("past_key_values", "present").replace("past", "present") for n in self.past]
        assert given == {"logits", *self.present}, given
        self.vocab, self.room, self.row = vocab, room, (heads, width)

    def generate(self, context: int, batch: int, new: int) -> list[float]:
        """Seconds of each greedy token, the first one with its prompt."""
        ids = np.random.default_rng(0).integers(self.vocab, size=(batch, context))
        at = [time.perf_counter()]
        cache = [self._empty(self.inputs[name], batch) for name in self.past]
        length = 0
        for _ in range(new):
            binding = self.session.io_binding()
            length += ids.shape[1]
            binding.bind_cpu_input("input_ids", ids)
            binding.bind_cpu_input("attention_mask", np.ones((batch, length), np.int64))
            if "position_ids" in self.inputs:
                positions = np.arange(length - ids.shape[1], length)
                binding.bind_cpu_input("position_ids", np.tile(positions, (batch, 1)))
            binding.bind_output("logits")
            for past, present, value in zip(self.past, self.present, cache, strict=True):
                binding.bind_ortvalue_input(past, value)
                if self.room:
                    binding.bind_ortvalue_output(present, value)
                else:
                    binding.bind_output(present)
            self.session.run_with_iobinding(binding)
            logits, *made = binding.get_outputs()
            cache = cache if self.room else made
            ids = logits.numpy()[:, -1].argmax(-1)[:, None]
            at.append(time.perf_counter())
        return [b - a for a, b in pairwise(at)]

    def _empty(self, port: ort.NodeArg, batch: int) -> ort.OrtValue:
        heads, width = self.row  # genai's graphs do not say the width
        return ort.OrtValue.ortvalue_from_numpy(np.zeros((batch, heads, self.room or 0, width), _NUMBERS[port.type]))


serve({"engine": Engine})
