"""Serves `ORTModelForCausalLM` of optimum-onnx, step by step, as its `generate` calls it. For a Python that has it."""

import time
from itertools import pairwise

import numpy as np
import onnxruntime as ort
import torch
from optimum.onnxruntime import ORTModelForCausalLM
from remote import serve


class Engine:
    """folder: a Hugging Face checkpoint, or what optimum exported it to. bound: I/O binding, which it leaves off on the CPU."""

    def __init__(self, folder: str, threads: int, vocab: int, bound: bool) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        torch.set_num_threads(threads)
        self.model = ORTModelForCausalLM.from_pretrained(folder, session_options=options, use_io_binding=bound)
        self.vocab = vocab

    @torch.no_grad()
    def generate(self, context: int, batch: int, new: int) -> list[float]:
        """Seconds of each greedy token, the first one with its prompt."""
        ids = torch.from_numpy(np.random.default_rng(0).integers(self.vocab, size=(batch, context)))
        mask, past = torch.ones_like(ids), None
        at = [time.perf_counter()]
        for _ in range(new):
            out = self.model(input_ids=ids, attention_mask=mask, past_key_values=past, use_cache=True)
            past = out.past_key_values
            ids = out.logits[:, -1].argmax(-1, keepdim=True)
            mask = torch.cat((mask, torch.ones_like(ids)), 1)
            ids.tolist()
            at.append(time.perf_counter())
        return [b - a for a, b in pairwise(at)]


serve({"engine": Engine})
