"""A precision on trial: first whether a graph is right, and then what its numbers cost.

The graph's float32 twin must agree with PyTorch, which has the weights as they are stored, to float32's rounding: so a wrong graph
never hides behind coarse weights. Then the graph itself is measured against PyTorch with the weights as they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from archspec.compiler.precision import storage
from archspec.exporters.runtime.device import cuda, open_session
from archspec.exporters.runtime.text import Text
from archspec.ops.model import Model

from .answers import answers, evaluating, loaded, reference
from .emit import parts, result
from .graph import Array
from .measures import demand, measured
from .passage import TEXT
from .questions import Case, fitting, request
from .rounded import rounded
from .sidecar import Progress
from .twin import Exact, twin
from .verify import Graph, Verification, on_cpu, verify
from .words import Part

if TYPE_CHECKING:
    from .comparison import Comparison

#: Random texts, and the tokens of a real one.
RANDOM, WORDS = Case(4, (64,), False, 32), 256
NO_BFLOAT16 = (
    "compared in float32: ONNX Runtime has kernels of bfloat16 on CUDA only, so this machine cannot run what it wrote"
)


def verify_precision(c: Comparison, folder: Path, twins: Mapping[Part, Exact], progress: Progress) -> Verification:
    """Compare an exported folder in half precision, or with weights in blocks, with PyTorch in float32.

    twins: by what the graphs' twins are held against PyTorch.
    Raises VerificationError for a graph that is wrong, BudgetError for one whose numbers are too coarse.
    """
    model, weights, precision = c.model, c.weights, c.precision
    feeds = requests(folder, model)
    module = c.module or loaded(model, weights)
    with evaluating(module):
        wanted = [reference(module, feed) for feed in feeds.values()]
    del module  # two in memory would be one too many
    progress("verification", 0.25)
    coarse = loaded(model, rounded(model, weights, storage(model, precision)))
    progress("verification", 0.5)
    checked = verify(folder, model, c.asked, partial(answers, coarse, c.asked), twins)
    del coarse
    progress("verification", 0.75)
    path, remark = folder / parts(model)["logits"], None
    if precision.compute != "bf16":
        graph = Graph(path, on_cpu)
    elif cuda().usable:
        graph = Graph(path, lambda path: open_session(path, "cuda")[0])
    else:
        graph, remark = Graph(path, partial(twin, exact=twins["logits"])), NO_BFLOAT16
    measures = []
    for (on, feed), want in zip(feeds.items(), wanted, strict=True):
        got = graph.run(feed)[result(model)[0]]
        measures.append(measured(model, on, _positions(want), _positions(got)))
    demand(precision, measures[-1], c.budget)
    return replace(checked, measures=tuple(measures), remark=remark)


def requests(folder: Path, model: Model) -> dict[str, dict[str, Array]]:
    """What a graph is given, by what it is: random tokens, and last a text where the folder has a tokenizer for it."""
    random = request(model, fitting(RANDOM, model), 0)
    feeds = {f"{random['input_ids'].size} random tokens": random}
    if (folder / "tokenizer.json").is_file():
        ids = Text.load(folder).encode(TEXT)
        case = fitting(Case(1, (min(len(ids), WORDS),), False, min(len(ids), WORDS)), model)
        feed = request(model, case, 0)
        for name in ("input_ids", "source_ids"):
            feed[name][0] = ids[: feed[name].shape[1]]
        if max(ids) < model.main[1].embedding.vocab:
            feeds[f"{case.cuts[0]} tokens of text"] = feed
    return feeds


def _positions(outputs: Array) -> Array:
    """B T C or B C -> N C"""
    return outputs.reshape(-1, outputs.shape[-1])
