"""From a model to ONNX graphs: the operations' own bodies, walked once a graph by the words in ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import onnx_ir as ir

from archspec.compiler.precision import FP32, Precision, storage
from archspec.ops.bind import Bound
from archspec.ops.head import ClassifierHead, LmHead, NoHead, PoolerHead
from archspec.ops.model import Model

from .branches import branch
from .graph import DTYPES, INT64, IR_VERSION, Builder, prune
from .passes import fuse
from .passes.fusion import Fusion
from .passes.run import OrtRun
from .weights import Weights
from .words import OnnxRun, Part, slot_name, trimmed

Target = Literal["onnx", "ort"]
"""`onnx`: operators of opset 23 only. `ort`: ONNX Runtime's own fused ones where they compute the same."""

#: The order of a graph's inputs; caches come after them, by layer.
INPUTS = (
    "input_ids", "source_ids", "attention_mask", "source_mask", "token_type_ids", "source_token_type_ids", "prefix_length",
)  # fmt: skip


def parts(model: Model) -> dict[Part, str]:
    """The graphs of a model and the files they stand in.

    `cached` steps through a text, `logits` reads a whole one, `encoder` gives what a decoder's cross attention reads. A head
    that gives one vector a text has nothing to step through.
    """
    if model.form == "encoder" or not by_token(model):
        return {"logits": "model.onnx"}
    if model.form == "encoder_decoder":
        return {"encoder": "encoder.onnx", "cached": "decoder.onnx", "logits": "logits.onnx"}
    return {"cached": "model.onnx", "logits": "logits.onnx"}


def by_token(model: Model) -> bool:
    """Does the head give a row for each token, or one for the text?"""
    return len(result(model)[1]) == 3


def result(model: Model, last_only: bool = False) -> tuple[str, list[int | str]]:
    """The name and the shape of what the head gives."""
    rows: int | str = 1 if last_only else "length"
    match model.head:
        case LmHead(vocab=vocab):
            return "logits", ["batch", rows, vocab]
        case NoHead(width=width):
            return "last_hidden_state", ["batch", rows, width]
        case PoolerHead(width=width):
            return "pooled", ["batch", width]
        case ClassifierHead(labels=labels, pool="tokens"):
            return "labels", ["batch", "length", labels]
        case ClassifierHead(labels=labels):
            return "labels", ["batch", labels]


def emit(
    model: Model,
    part: Part,
    weights: Weights,
    *,
    last_only: bool = False,
    metadata: Mapping[str, str] | None = None,
    precision: Precision = FP32,
    target: Target = "onnx",
    context: int | None = None,
) -> ir.Model:
    """One graph of a model. Milliseconds for any depth: no weight is read before the graph is written.

    weights: gives a stored tensor by its path (`model.tensors()`), in the shape that it is stored in.
    last_only: logits of the last position alone, B 1 V.
    metadata: goes into the file's own.
    precision: of what is computed and of what is stored. target: what operators there may be.
    context: the longest run, which fused attention tabulates its angles for.
    What was fused for `ort` is in the result's `meta["fusions"]`; what it holds rounded of its own numbers, in `meta["exact"]`.
    """
    g = Builder(model.name, DTYPES[precision.compute])
    kind = OrtRun if target == "ort" else OnnxRun
    run = kind(g, model, part, weights, storage(model, precision), last_only, context)
    scope = Bound(model)
    memory = None
    keep = ["input_ids", "attention_mask"]
    if model.form == "encoder_decoder":
        keep += ["source_ids", "source_mask"]
        run.places.mask("source")
        if part != "cached":
            memory = model.encode(run, scope, g.input("source_ids", INT64, ["batch", "source"]))
    ids = g.input("input_ids", INT64, ["batch", "length"])
    run.places.mask("tokens")
    out = model.forward(run, scope, ids, memory)
    if part == "encoder":
        keep = ["source_ids", "source_mask"]
        for slot, value in run.kept.items():
            g.output(value, slot_name("cross", slot), ["batch", slot.slot.heads, "source", slot.slot.width])
    else:
        assert isinstance(out, ir.Value)
        out = g.full(out)  # whoever reads it computes in float32
        with g.precise():
            g.output(out, *result(model, last_only))
        for slot, value in run.present.items():
            total = trimmed("total", slot)
            g.output(value, slot_name("present", slot), ["batch", slot.slot.heads, total, slot.slot.width])
    fusions: tuple[Fusion, ...] = fuse(run) if isinstance(run, OrtRun) else ()
    prune(g.graph, keep)
    branch(g)
    _order_inputs(g.graph)
    props = dict(metadata or {})
    emitted = ir.Model(g.graph, ir_version=IR_VERSION, producer_name="archspec", metadata_props=props)
    emitted.meta["fusions"] = fusions
    emitted.meta["exact"] = g.exact
    return emitted


def _order_inputs(graph: ir.Graph) -> None:
    """Sort a graph's inputs by what they are; caches keep the order of the layers."""
    kinds = {name: i for i, name in enumerate((*INPUTS, "past", "cross"))}
    inputs = sorted(graph.inputs, key=lambda v: kinds[str(v.name).split(".")[0]])
    graph.inputs.clear()
    graph.inputs.extend(inputs)
