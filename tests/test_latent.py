"""Latent attention in its two ways: on keys and values that are made of the latents, and, in a step, on the latents themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
import torch
from onnx_cases import random_module, stored
from tiny import tiny
from torch.utils.flop_counter import FlopCounterMode
from torch_help import perturbed, tokens

from archspec.api import load
from archspec.compiler.flops import B, Counter, Lengths, Shape, T, _Booked, count_flops
from archspec.compiler.precision import FP32, Precision, precision, storage
from archspec.exporters.onnx.answers import loaded, reference
from archspec.exporters.onnx.emit import Target, emit, parts
from archspec.exporters.onnx.questions import Case, request
from archspec.exporters.onnx.rounded import rounded
from archspec.exporters.onnx.sidecar import write_weights
from archspec.exporters.onnx.twin import twin
from archspec.exporters.onnx.verify import Graph, on_cpu, stepped
from archspec.exporters.torch.cache import GrowingCache, StaticCache
from archspec.exporters.torch.module import build
from archspec.ops.model import Model

INT4 = precision("int4", block=16)
#: Heads of 8 + 4, values of 6; `mla` itself has latents of 10, and these are as wide as no head, or wide, or narrow.
RANK = "decoder.attention.kv_lora_rank="
MLA = (RANK + "16",)
WIDE, NARROW = (RANK + "64",), (RANK + "4",)


# -------------------------------------------------------------------------------------------------------------- counts


def test_a_step_by_hand() -> None:
    """DeepSeek-V2-Lite: 27 layers of 16 heads, latents of 512, keys of 128 + 64, values of 128."""
    step = [sum(load("deepseek-v2-lite").count(length=1, past=past).causal.values()) for past in (1000, 1001)]
    assert step[1] - step[0] == 27 * 16 * 2 * (512 + 64 + 512) == 940_032
    # bringing 4 tokens to latents and back costs what making their keys and values does, so pairs are all the difference
    first, later = (sum(load("deepseek-v2-lite").count(length=4, past=past).causal.values()) for past in (0, 1000))
    assert later - first == 27 * 16 * 2 * (4_010 * (512 + 64 + 512) - 10 * (128 + 64 + 128))


class OneWay(Counter):
    """Counts one of two ways, whatever the call."""

    def __init__(self, way: Literal["step", "whole"]) -> None:
        super().__init__()
        self.way = way

    def stepping(self, most: int | None, step: Callable[[], Shape], whole: Callable[[], Shape]) -> Shape:
        return step() if self.way == "step" else whole()


def dense(model: Model, way: Literal["step", "whole"] | None, **lengths: int) -> int:
    if way is None:
        flops = count_flops(model)
    else:
        counter = OneWay(way)
        model.forward(counter, _Booked(model), (B, T))
        flops = counter.flops
    return sum(p.at(flops.value(Lengths(1, **lengths))) for p in flops.dense.values())


@pytest.mark.parametrize(("rank", "most"), [("10", 23), ("16", 12), ("64", 7)])
def test_the_cheaper_way_is_taken(rank: str, most: int) -> None:
    model, far = tiny("mla", RANK + rank), 10**6
    for new, way, other in ((most, "step", "whole"), (most + 1, "whole", "step")):
        assert dense(model, None, length=new, past=far) == dense(model, way, length=new, past=far)  # type: ignore[arg-type]
        assert dense(model, way, length=new, past=far) <= dense(model, other, length=new, past=far)  # type: ignore[arg-type]
    assert dense(model, None, length=1) == dense(model, "whole", length=1)


def test_narrow_latents_are_cheaper_after_any_past() -> None:
    model = tiny("mla", *NARROW)
    assert dense(model, None, length=999, past=1) == dense(model, "step", length=999, past=1)
    assert dense(model, "step", length=999, past=1) < dense(model, "whole", length=999, past=1)


@pytest.mark.parametrize(("past", "new"), [(2, 1), (9, 4), (3, 7), (3, 8), (40, 30)])
@pytest.mark.parametrize("rank", ["4", "10", "64"])
def test_flops_after_a_past_are_those_of_torchs_counter(rank: str, past: int, new: int) -> None:
    model = tiny("mla", RANK + rank, "decoder.layers=2")  # no window, which would trim the cache
    net, cache = build(model, device="meta").eval(), GrowingCache()
    with torch.device("meta"), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        net(torch.zeros(2, past, dtype=torch.long), cache=cache)
        with FlopCounterMode(display=False) as counter:
            net(torch.zeros(2, new, dtype=torch.long), cache=cache)
    assert counter.get_total_flops() == 2 * dense(model, None, length=new, past=past)


# ------------------------------------------------------------------------------------------------------------- PyTorch


@pytest.mark.parametrize("cuts", [(2, 7, 4), (2, 8, 1, 2), (1, 9, 3)], ids=str)
@pytest.mark.parametrize("overrides", [MLA, WIDE, NARROW, ("decoder.attention.heads=1",)], ids=str)
def test_both_ways_give_the_same_numbers(overrides: tuple[str, ...], cuts: tuple[int, ...]) -> None:
    """A step of WIDE has at most 7 tokens."""
    net, ids = perturbed(tiny("mla", *overrides)), tokens(2, 13)
    for cache in (GrowingCache(), StaticCache(net.op, 2, 14, torch.float64)):
        with torch.no_grad():
            pieces = [net(piece, cache=cache) for piece in ids.split(cuts, 1)]
        torch.testing.assert_close(torch.cat(pieces, 1), net(ids), atol=1e-12, rtol=0)


class Adapted(torch.nn.Module):
    """A linear with a change of low rank beside it, as adapters have it."""

    def __init__(self, base: torch.nn.Linear) -> None:
        super().__init__()
        self.base, self.in_features, self.out_features = base, base.in_features, base.out_features
        generator = torch.Generator().manual_seed(3)
        self.down = torch.nn.Parameter(torch.randn(2, base.in_features, dtype=torch.float64, generator=generator))
        self.up = torch.nn.Parameter(torch.randn(base.out_features, 2, dtype=torch.float64, generator=generator))

    @property
    def weight(self) -> torch.Tensor:
        return self.base.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.base(x) + x @ self.down.T @ self.up.T
        return y


def test_a_step_heeds_an_adapter() -> None:
    net, ids, cache = perturbed("mla"), tokens(2, 9), GrowingCache()
    plain = net(ids)
    for layer in net.decoder.layers:  # type: ignore[union-attr]
        attention = layer.attention  # type: ignore[union-attr]
        attention.k_up, attention.v_up = Adapted(attention.k_up), Adapted(attention.v_up)  # type: ignore[union-attr, arg-type]
    whole = net(ids)
    assert (whole - plain).abs().max() > 1e-3
    pieces = [net(piece, cache=cache) for piece in ids.split((5, 3, 1), 1)]
    torch.testing.assert_close(torch.cat(pieces, 1), whole, atol=1e-12, rtol=0)


# ---------------------------------------------------------------------------------------------------------------- ONNX


def written(model: Model, numbers: Precision, folder: Path, target: Target = "ort") -> dict[str, Graph]:
    weights = stored(random_module(model))
    graphs = {part: emit(model, part, weights, precision=numbers, target=target, context=24) for part in parts(model)}
    write_weights(list(graphs.values()), folder, lambda stage, share: None)
    for part, graph in graphs.items():
        ir.save(graph, folder / parts(model)[part])
        onnx.checker.check_model(folder / parts(model)[part])
    return {
        part: Graph(
            folder / parts(model)[part], on_cpu if numbers == FP32 else partial(twin, exact=graph.meta["exact"])
        )
        for part, graph in graphs.items()
    }


@pytest.mark.parametrize(
    ("name", "overrides", "numbers", "target"),
    [
        ("mla", (), FP32, "ort"),
        ("mla", MLA, FP32, "onnx"),
        ("mla", WIDE, FP32, "ort"),
        ("mla", NARROW, FP32, "ort"),
        ("mla", ("decoder.attention.heads=1",), FP32, "ort"),
        ("mla", MLA, INT4, "ort"),
        ("mla", MLA, INT4, "onnx"),
        ("mla", (), precision("fp16"), "ort"),
        ("latents", (), FP32, "ort"),
        ("latents", ("block.attention.kv_lora_rank=16",), INT4, "ort"),
    ],
)
@pytest.mark.parametrize("cuts", [(9, 1, 1, 2, 1), (1, 1, 1, 1, 6), (3, 8, 3), (14,)], ids=str)
def test_steps_are_pytorchs(
    name: str, overrides: tuple[str, ...], numbers: Precision, target: Target, cuts: tuple[int, ...], tmp_path: Path
) -> None:
    """`mla` has one layer that sees everything and one with a window of 5; rows are padded in a batch."""
    model = tiny(name, *overrides)
    opened = written(model, numbers, tmp_path, target)
    module = loaded(model, rounded(model, stored(random_module(model)), storage(model, numbers)))
    for batch in (1, 3):
        feed = request(model, Case(batch, cuts, True, 7), 0)
        want = reference(module, feed)
        crossed = opened["encoder"].run(feed) if "encoder" in opened else {}
        got, columns = stepped(opened["cached"], feed | crossed, cuts)
        tokens = feed["attention_mask"][:, columns] > 0
        assert np.abs(got - want[:, columns])[tokens].max() < 1e-4 * want.std()
        (whole,) = opened["logits"].run(feed).values()
        assert np.abs(whole - want)[feed["attention_mask"] > 0].max() < 1e-4 * want.std()


def branches(graph: ir.Graph) -> list[dict[str, ir.Graph]]:
    """Of every choice, what is gone in a step and what is gone in any other call."""
    return [{k: a.as_graph() for k, a in n.attributes.items()} for n in graph if n.op_type == "If"]


@pytest.mark.parametrize("target", ["onnx", "ort"])
def test_the_past_meets_latents_in_a_step_and_nothing_that_is_made_of_them(target: Target) -> None:
    """What comes of the caches goes into products with queries and with shares, and into none with a weight."""
    graph = emit(tiny("mla"), "cached", pytest.fail, target=target).graph
    past = {v for v in graph.inputs if str(v.name).startswith("past.")}
    steps = [sides["then_branch"] for sides in branches(graph)]
    assert len(steps) == 2
    for nodes in (graph, *steps):  # in order
        for node in nodes:
            if node.op_type in ("Concat", "Transpose", "Squeeze", "Unsqueeze", "Reshape") and past & {*node.inputs}:
                past |= {*node.outputs}
    products = [
        [n for n in step if n.op_type in ("MatMul", "Gemm", "Attention") and past & {*n.inputs}] for step in steps
    ]
    assert [[n.op_type for n in each] for each in products] == [["MatMul"] * 2] * 2
    assert not [n for n in graph if n.op_type in ("MatMul", "Gemm", "Attention") and past & {*n.inputs}]
    assert not [v for each in products for n in each for v in n.inputs if v and v.const_value]


def test_a_branch_holds_all_that_it_alone_needs() -> None:
    graph = emit(tiny("mla"), "cached", pytest.fail, target="ort").graph
    for sides in branches(graph):
        step, whole = ([n.op_type for n in sides[k]] for k in ("then_branch", "else_branch"))
        assert (step.count("MatMul"), step.count("Softmax"), step.count("Attention")) == (4, 1, 0)
        assert (whole.count("MatMul"), whole.count("Softmax"), whole.count("Attention")) == (2, 0, 1)
    assert {n.op_type for n in graph} & {"Attention", "Softmax"} == set()
    assert not branches(emit(tiny("mla"), "logits", pytest.fail, target="ort").graph)


def test_both_ways_read_the_weights_as_they_lie(tmp_path: Path) -> None:
    """ONNX Runtime keeps a copy of whatever hangs on weights alone."""
    written(tiny("mla"), FP32, tmp_path)
    options = ort.SessionOptions()
    options.log_severity_level, options.optimized_model_filepath = 3, str(tmp_path / "optimised.onnx")
    ort.InferenceSession(tmp_path / "model.onnx", options, providers=["CPUExecutionProvider"])
    nodes = onnx.load(tmp_path / "optimised.onnx").graph.node
    bodies = [a.g for node in nodes if node.op_type == "If" for a in node.attribute]
    assert len(bodies) == 4
    assert not [i.name for body in bodies for i in body.initializer if i.data_type == onnx.TensorProto.FLOAT]


def test_the_graphs_of_a_folder_read_the_same_bytes(tmp_path: Path) -> None:
    model = tiny("mla")
    written(model, FP32, tmp_path)
    places: dict[str, set[tuple[str, str]]] = {}
    for file in parts(model).values():
        for stands in onnx.load(tmp_path / file, load_external_data=False).graph.initializer:
            if "k_up" in stands.name or "v_up" in stands.name:
                where = {e.key: e.value for e in stands.external_data}
                at = stands.name.partition("_up")[0]
                places.setdefault(at, set()).add((where["offset"], where["length"]))
    assert {at: len(found) for at, found in places.items()} == dict.fromkeys(places, 1)
    assert len(places) == 4


def test_matrices_beside_latents_are_in_no_blocks() -> None:
    kept = storage(tiny("mla", *MLA), INT4)
    beside = {path for path, reason in kept.left.items() if reason == "matrices beside latents"}
    assert beside == {f"decoder.layers.{i}.attention.{name}_up.weight" for i in (0, 1) for name in "kv"}


def test_an_encoder_makes_keys_and_values() -> None:
    made = {part: len(branches(emit(tiny("latents"), part, pytest.fail).graph)) for part in parts(tiny("latents"))}
    assert made == {"encoder": 0, "cached": 1, "logits": 0}
