"""Serves onnxruntime-genai: its builder's folder, its `Generator`."""

import json
import time
from itertools import pairwise

import numpy as np
import onnxruntime_genai as og
from remote import serve


class Engine:
    """folder: what its builder wrote. shared: keys and values in one buffer of the model's whole context."""

    def __init__(self, folder: str, threads: int, shared: bool = True) -> None:
        config = og.Config(folder)
        config.overlay(json.dumps({"model": {"decoder": {"session_options": {"intra_op_num_threads": threads}}}}))
        self.model, self.shared = og.Model(config), shared
        self.settings = json.loads(open(f"{folder}/genai_config.json").read())["model"]  # noqa: SIM115

    def generate(self, context: int, batch: int, new: int) -> list[float]:
        """Seconds of each token, the first one with its prompt; each token is read, as a stream of text would."""
        rows = np.random.default_rng(0).integers(self.settings["vocab_size"], size=(batch, context))
        length = self.settings["context_length"] if self.shared else context + new
        at = [time.perf_counter()]
        params = og.GeneratorParams(self.model)
        params.set_search_options(
            max_length=length, batch_size=batch, do_sample=False, past_present_share_buffer=self.shared
        )
        generator = og.Generator(self.model, params)
        generator.append_tokens(rows.astype(np.int32))
        for _ in range(new):
            generator.generate_next_token()
            generator.get_next_tokens()
            at.append(time.perf_counter())
        return [b - a for a, b in pairwise(at)]


serve({"engine": Engine})
