"""The drawing says what the operations say: laws over specs of every kind, and hand arithmetic on published ones."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar

import pytest
from tiny import ENCODERS, GROWING, SEQ2SEQ, TINY, tiny

from archspec.api import load
from archspec.compiler.lower import lower
from archspec.compiler.parameters import count_parameters
from archspec.compiler.resolve import resolve
from archspec.exporters.diagram.build import draw
from archspec.exporters.diagram.facts import describe, role
from archspec.exporters.diagram.graph import Drawing, Edge, Frame, Node
from archspec.ops.attention import CrossAttention
from archspec.ops.base import Op, walk
from archspec.ops.block import Block, ParallelBlock
from archspec.ops.leaves import Leaf, Linear, Table, Vector
from archspec.ops.model import Model
from archspec.ops.moe import Moe

PER_STACK = "decoder.attention.position.table=per_stack"
WIRINGS = {
    "narrow tokens": ("gpt2", "embedding.projection={dim: 16, of: tokens, bias: false}"),
    "no residual": ("gpt2", "decoder.residual=none"),
    "branch": ("llama", "decoder.placement=branch"),
    "no norms": ("gpt2", "decoder.placement=none"),
    "one norm": ("parallel", "decoder.parallel=one_norm"),
    "parallel without residual": ("parallel", "decoder.residual=none"),
    "attention only": ("gpt2", "decoder.ffn=none"),
    "headless": ("bert", "head=none"),
    "every token": ("classifier", "head.pool=tokens"),
    "scaled head": ("gpt2", "head.scale=1/8"),
    "types and position": ("gpt2", "embedding.token_types=3"),
    "uneven depths": ("seq2seq", "encoder.layers=5", "decoder.layers=1"),
    "table and positions": ("buckets", PER_STACK, "embedding.position=learned", "embedding.token_types=2"),
    "table and pattern": (
        "buckets",
        PER_STACK,
        "decoder.layers=[{}, {repeat: 3, attention: {window: 4}}, {}, {repeat: 3, attention: {window: 4}}]",
    ),
    "table and branches": ("t5", "encoder.parallel=one_norm"),
    "experts beside": ("experts", "decoder.parallel=two_norms"),
    "shared experts": ("experts", "decoder.layers=[{repeat: 3, weights: shared}]"),
}
MODELS = {name: tiny(name) for name in {**TINY, **GROWING}} | {name: tiny(*spec) for name, spec in WIRINGS.items()}


def node(drawing: Drawing, end: str) -> Node:
    """The one node whose id ends so."""
    (found,) = [n for n in drawing.nodes() if n.id.endswith(end)]
    return found


def edges(drawing: Drawing, kind: str) -> list[Edge]:
    return [e for e in drawing.edges if e.kind == kind]


def layers_once(model: Model) -> list[Block | ParallelBlock]:
    """Each different layer of each stack; those of one spec entry are one object."""
    once = [op for stack in model.stacks().values() for op in dict.fromkeys(stack.layers)]
    return [op for op in once if isinstance(op, Block | ParallelBlock)]


def order(drawing: Drawing) -> list[str]:
    """The titles of the boxes inside the first frame, bottom to top; sums and forks as `+` and `.`."""
    marks = {"sum": "+", "fork": "."}
    return [marks.get(n.role, n.title) for n in next(drawing.frames()).items if isinstance(n, Node)]


@pytest.mark.parametrize("level", ["block", "model"])
@pytest.mark.parametrize("name", MODELS)
def test_every_node_is_on_a_way_from_an_input_to_an_output(name: str, level: str) -> None:
    drawing = draw(MODELS[name], level)  # type: ignore[arg-type]
    flow = [e for e in drawing.edges if e.kind != "tie"]
    nodes = {n.id: n for n in drawing.nodes()}
    assert {end for e in drawing.edges for end in (e.source, e.target)} <= nodes.keys()

    def reached(start: set[str], pairs: list[tuple[str, str]]) -> set[str]:
        seen = set(start)
        while more := {b for a, b in pairs if a in seen} - seen:
            seen |= more
        return seen

    inputs = {n.id for n in nodes.values() if n.role == "input"} | {e.source for e in flow if e.kind == "table"}
    outputs = {n.id for n in nodes.values() if n.role == "output"}
    assert reached(inputs, [(e.source, e.target) for e in flow]) == nodes.keys()
    assert reached(outputs, [(e.target, e.source) for e in flow]) == nodes.keys()
    assert len(outputs) == 1


@pytest.mark.parametrize("level", ["block", "model"])
@pytest.mark.parametrize("name", MODELS)
def test_boxes_hold_every_parameter_once(name: str, level: str) -> None:
    model = MODELS[name]
    drawing = draw(model, level)  # type: ignore[arg-type]
    trained = sum(t.size for t in model.tensors() if t.trained)
    assert sum(n.parameters * n.times for n in drawing.nodes()) == trained
    idle = sum(t.size * (1 - share) for t in model.tensors() if (share := chosen(model, t.path)) < 1)
    assert sum(n.idle * n.times for n in drawing.nodes()) == idle
    assert f"{trained:,} parameters" in drawing.subtitle[-1]
    assert ("active" in drawing.subtitle[-1]) == (idle > 0)


def chosen(model: Model, path: str) -> Fraction:
    """The share of a tensor that one token uses."""
    at, mixture, leaf = path.partition("expert.")
    if not mixture or leaf.split(".")[0] not in ("gate", "up", "down"):
        return Fraction(1)
    (op,) = (op for where, op, _ in walk(model) if where == at)
    assert isinstance(op, Moe)
    return Fraction(op.routing.k, op.experts)


@pytest.mark.parametrize("name", MODELS)
def test_every_residual_is_an_edge_from_its_source_to_its_sum(name: str) -> None:
    drawing, expected = draw(MODELS[name]), 0
    for op in layers_once(MODELS[name]):
        skips = sum(s.residual.skip is not None for s in op.sublayers)
        expected += skips if isinstance(op, Block) else min(skips, 1)
    roles = {n.id: n.role for n in drawing.nodes()}
    assert [(roles[e.source], roles[e.target]) for e in edges(drawing, "residual")] == [("fork", "sum")] * expected
    stream = {e.target: e.source for e in edges(drawing, "stream")}
    for e in edges(drawing, "residual"):  # the sum lies after its source on the same stream
        at = e.target
        while at != e.source:
            at = stream[at]


@pytest.mark.parametrize("name", MODELS)
def test_cross_attention_reads_keys_and_values_from_the_encoders_output(name: str) -> None:
    drawing = draw(MODELS[name])
    crossing = [s for op in layers_once(MODELS[name]) for s in op.sublayers if isinstance(s.f, CrossAttention)]
    memory = edges(drawing, "memory")
    assert len(memory) == 2 * len(crossing)
    if name in SEQ2SEQ:
        last = drawing.columns[0].items[-1]
        top = last if isinstance(last, Node) else last.items[-1]  # type: ignore[union-attr]
        assert {(e.source, e.label) for e in memory} == {(top.id, "K"), (top.id, "V")}  # type: ignore[union-attr]
        assert {e.target for e in memory} == {"decoder.layers.0.cross_attention"}


@pytest.mark.parametrize("name", ["gpt2", "bert", "sandwich", "parallel", "albert", "experts", "mla", "buckets"])
@pytest.mark.parametrize("level", ["block", "model"])
def test_size_does_not_depend_on_depth(name: str, level: str) -> None:
    stack = "encoder" if name in ENCODERS else "decoder"
    key = f"{stack}.layers.0.repeat" if name == "albert" else f"{stack}.layers"
    more = (PER_STACK,) if name == "buckets" else ()
    shallow, deep = (draw(tiny(name, f"{key}={n}", *more), level) for n in (2, 96))  # type: ignore[arg-type]
    assert [n.id for n in shallow.nodes()] == [n.id for n in deep.nodes()]
    assert len(shallow.edges) == len(deep.edges) < 280
    assert [f.times for f in shallow.frames()] == [2]
    assert [f.times for f in deep.frames()] == [96]


def test_norms_stand_where_they_are() -> None:
    def inside(placement: str) -> list[str]:
        return order(draw(tiny("gpt2", f"decoder.placement={placement}")))

    norm, attention, ffn = "LayerNorm", "Self-attention", "Feed-forward"
    assert inside("pre") == [".", norm, attention, "+", ".", norm, ffn, "+"]
    assert inside("post") == [".", attention, "+", norm, ".", ffn, "+", norm]
    assert inside("branch") == [".", attention, norm, "+", ".", ffn, norm, "+"]
    assert inside("sandwich") == [".", norm, attention, norm, "+", ".", norm, ffn, norm, "+"]
    assert inside("none") == [".", attention, "+", ".", ffn, "+"]


def test_no_residual_is_said_and_seen() -> None:
    drawing = draw(MODELS["no residual"])
    assert order(drawing) == ["LayerNorm", "Self-attention", "LayerNorm", "Feed-forward"]
    assert "no residual" in node(drawing, ".attention").facts
    assert not edges(drawing, "residual")


def test_scales_are_written_on_their_edges() -> None:
    drawing = draw(tiny("odd"))
    assert {e.label for e in edges(drawing, "residual")} == {"× 0.9"}
    into_sums = {
        e.label for e in edges(drawing, "stream") if e.target.startswith("decoder.layers") and e.target[-3:] == "sum"
    }
    assert into_sums == {"× 0.7"}
    assert [e.label for e in edges(drawing, "stream") if e.target == "head.out"] == ["× 1/2"]
    (scaled,) = [
        e for e in draw(tiny("sandwich")).edges if e.source == "decoder.embedding.tokens" and e.kind == "stream"
    ]
    assert scaled.label == "× √32"


def test_parallel_branches_read_one_x() -> None:
    two, one = draw(MODELS["parallel"]), draw(MODELS["one norm"])
    for drawing, first in ((two, "_input_norm"), (one, "")):
        fed = {
            e.source
            for e in edges(drawing, "stream")
            if e.target in (f"decoder.layers.0.{n}{first}" for n in ("attention", "ffn"))
        }
        assert fed == {"decoder.layers.0.parallel.x"}
    assert sum(n.role == "norm" for n in two.nodes()) == sum(n.role == "norm" for n in one.nodes()) + 1


def test_ties_are_marked() -> None:
    assert [(e.source, e.target, e.label) for e in edges(draw(tiny("seq2seq")), "tie")] == [
        ("decoder.embedding.tokens", "head.out", "tied"),
        ("decoder.embedding.tokens", "encoder.embedding.tokens", "shared"),
    ]
    assert node(draw(tiny("gpt2")), "head.out").note == "tied"
    assert not edges(draw(tiny("t5like")), "tie")


def test_shared_weights_are_marked_and_counted_once() -> None:
    drawing = draw(tiny("albert"))
    (frame,) = drawing.frames()
    assert (frame.times, frame.shared) == (3, True)
    assert "shared weights" in frame.label
    # q, k, v, o: 4 · (32² + 32); up and down: 2 · 32 · 48 + 48 + 32; two norms: 4 · 32
    assert sum(n.parameters * n.times for n in drawing.nodes() if ".layers." in n.id) == 4224 + 3152 + 128


def test_a_layer_with_the_weights_of_an_earlier_one_adds_none() -> None:
    model = tiny("experts", "decoder.layers=[{}, {ffn: {top_k: 2}}, {}]")
    assert model.decoder
    again = model.replaced(decoder=model.decoder.replaced(owners=(0, 1, 0)))
    drawing = draw(again)
    first, _, third = (n for n in drawing.nodes() if n.role == "ffn")
    assert first.parameters > first.idle > third.parameters == third.idle == 0
    assert [f.label[-1] for f in drawing.frames()][2] == "weights of layer 0"
    assert sum((n.parameters - n.idle) * n.times for n in drawing.nodes()) == count_parameters(again).active


def test_gpt2_by_hand() -> None:
    drawing = draw(lower(resolve("gpt2").spec))
    assert node(drawing, "embedding.tokens").parameters == 38_597_376
    assert node(drawing, "embedding.positions").parameters == 786_432
    assert node(drawing, ".attention").parameters == 2_362_368
    assert node(drawing, ".ffn").parameters == 4_722_432
    assert node(drawing, ".ffn").times == 12
    assert node(drawing, "final_norm").parameters == 1_536
    assert node(drawing, "head.out").parameters == 0
    assert node(drawing, ".attention").facts == ("12 heads × 64", "causal", "bias")
    assert next(drawing.frames()).label == ("× 12", "7.09M each")


def test_frames_say_which_layers_they_hold_and_nothing_of_once() -> None:
    """Gemma 3's first 60 layers: ten times five with a window and one without; then two with a window."""
    labels = [frame.label for frame in draw(lower(resolve("gemma-3-27b").spec)).frames()]
    assert labels == [
        ("× 10", "layers 0–59", "2.48B each"),
        ("× 5", "layers 0–4, 6–10, …, 54–58", "413M each"),
        ("layers 5, 11, …, 59", "413M each"),
        ("× 2", "layers 60–61", "413M each"),
    ]
    deep = draw(
        tiny(
            "llama",
            "decoder.layers=[{}, {repeat: 3, layers: [{repeat: 2, layers: [{attention: {window: 4}}, {}]}, {}]}]",
        )
    )
    assert [frame.label[:2] for frame in deep.frames()][:4] == [
        ("layer 0", "7.76k"),
        ("× 3", "layers 1–15"),
        ("× 2", "layers 1–4, 6–9, 11–14"),
        ("layers 1, 3, 6, 8, 11, 13", "7.76k each"),
    ]


@pytest.mark.parametrize("name", MODELS)
def test_the_layers_of_the_frames_are_all_there_are(name: str) -> None:
    """Of frames side by side each layer is in one, whatever repeats whatever."""
    for stack, column in zip(MODELS[name].stacks().values(), draw(MODELS[name]).columns, strict=True):
        frames = [item for item in column.items if isinstance(item, Frame)]
        assert covered(frames, range(len(stack.layers))) == set(range(len(stack.layers)))
        assert not any("× 1" in frame.label for frame in draw(MODELS[name]).frames())


def covered(frames: list[Frame], of_all: range) -> set[int]:
    """The layers that frames say they hold, and that those inside them say again."""
    found: set[int] = set()
    for frame in frames:
        (said,) = [t for t in frame.label if t.startswith("layer")] or [f"layers {of_all.start}–{of_all.stop - 1}"]
        mine = layers_of(said)
        assert not mine & found
        inner = [item for item in frame.items if isinstance(item, Frame)]
        assert not inner or covered(inner, of_all) == mine
        found |= mine
    return found


def layers_of(said: str) -> set[int]:
    """`layers 0–1, 3–4, …, 12–13` as a reader takes it."""
    found: list[range] = []
    words = said.removeprefix("layers ").removeprefix("layer ").split(", ")
    for i, word in enumerate(words):
        if word == "…":
            step, end = found[-1].start - found[-2].start, int(words[i + 1].split("–")[0])
            found += [range(at, at + len(found[-1])) for at in range(found[-1].start + step, end, step)]
        else:
            first, _, last = word.partition("–")
            found.append(range(int(first), int(last or first) + 1))
    assert len({layer for span in found for layer in span}) == sum(map(len, found))
    return {layer for span in found for layer in span}


def test_the_context_is_said_where_there_is_one() -> None:
    assert draw(tiny("gpt2"), context=1024).subtitle == (
        "decoder · 2 layers · d_model 32", "vocabulary 61 · context 1,024", "17,792 parameters"
    )  # fmt: skip
    assert draw(tiny("gpt2")).subtitle[1] == "vocabulary 61"
    assert "context 1,024" in load("gpt2").diagram("mermaid").decode()


def test_experts_by_hand() -> None:
    layer = node(draw(tiny("moe", "decoder.layers=[{}]")), ".ffn")
    # gate, up and down of an expert: 3 · 32 · 16; the router: 32 · 6
    assert (layer.title, layer.parameters, layer.parameters - layer.idle) == ("Mixture of experts", 9_408, 3_264)
    assert layer.facts == ("6 experts, top 2", "32 → 16 → 32", "gated silu", "softmax router", "normalized")
    mixtral = draw(lower(resolve("mixtral-8x7b").spec))
    assert mixtral.subtitle[-1] == "46,702,792,704 parameters · 12.9B active"  # as published
    assert next(mixtral.frames()).label == ("× 32", "1.45B each", "394M active")


def test_some_experts_are_drawn_and_some_of_them_chosen() -> None:
    def drawn(experts: int, k: int, *more: str) -> list[str]:
        sizes = (f"decoder.ffn.experts={experts}", f"decoder.ffn.top_k={k}")
        chips = node(draw(tiny("moe", "decoder.layers=[{}]", *sizes, *more)), ".ffn").chips
        return [f"[{text}]" if kind == "chosen" else text for text, kind in chips]

    assert drawn(8, 2) == ["1", "2", "[3]", "4", "5", "6", "[7]", "8"]
    assert drawn(2, 2) == ["[1]", "[2]"]
    assert drawn(128, 1) == ["1", "2", "[3]", "4", "5", "…", "128"]
    assert drawn(9, 4, "decoder.ffn.shared={width: 8}") == ["1", "[2]", "3", "[4]", "5", "…", "[9]", "shared"]


def test_a_table_of_all_layers_is_drawn_once() -> None:
    for level, end in (("block", ".attention"), ("model", "")):
        drawing = draw(tiny("t5"), level)  # type: ignore[arg-type]
        assert [(e.source, e.target) for e in edges(drawing, "table")] == [
            (f"{stack}.layers.0.attention.table", f"{stack}.layers.0{end}") for stack in ("encoder", "decoder")
        ]
    drawing = draw(tiny("t5", "decoder.layers=40"))
    table = node(drawing, "decoder.layers.0.attention.table")
    assert (table.parameters, table.times) == (8 * 4, 1)
    assert table.facts == ("8 buckets × 4 heads", "one table for all layers")
    assert node(drawing, "decoder.layers.0.attention").parameters == 4 * 32 * 24
    own = draw(tiny("buckets"))  # a table for each layer, and sinks: a number a head
    assert not edges(own, "table")
    assert node(own, ".attention").parameters == 2 * 32 * 32 + 2 * 32 * 16 + 8 * 4 + 4
    assert {"relative positions in 8 buckets", "sinks"} <= set(node(own, ".attention").facts)


def test_facts_tell_variants_apart() -> None:
    rope = "decoder.attention.position={kind: rope, scaling: {kind: %s}}"
    facts = {
        "decoder.attention.window=5": "window 5",
        "decoder.attention.softcap=30": "softcap 30",
        "decoder.attention.clip=8": "clip ±8",
        "decoder.attention.scale=1": "scale 1",
        "decoder.attention.kv_heads=1": "1 k/v head",
        "decoder.attention.mask=prefix": "prefix",
        "decoder.attention.qk_norm={over: vector}": "q/k norm of the vector",
        "decoder.attention.qk_norm={order: after_rope}": "q/k norm after rope",
        "decoder.attention.position={kind: rope, dim: 4}": "rope θ 10,000 on 4 of 8",
        rope % "ramp, factor: 8, original_context: 8": "ramp ×8",
        rope % "ntk, alpha: 3": "ntk α 3",
        rope % "proportional, share: 0.5": "1/2 of the pairs",
        "decoder.attention.position=alibi": "alibi",
        "decoder.attention.position={kind: alibi, max_bias: 4, order: before_scale}": "alibi up to 4 before scale",
        "decoder.attention.gate={per: head}": "sigmoid gate per head",
        "decoder.attention.gate={activation: silu}": "silu gate",
        "decoder.attention.temperature={slope: 0.1, period: 8192}": "temperature 0.1 per 8,192 tokens",
    }
    for override, fact in facts.items():
        assert fact in node(draw(tiny("llama", override, "decoder.layers=1")), ".attention").facts, override


def test_layers_without_rotation_are_told_from_those_with() -> None:
    mixed = draw(tiny("llama", "decoder.layers=[{}, {attention: {position: none}}]"))
    assert ["no rope" in n.facts for n in mixed.nodes() if n.role == "attention"] == [False, True]
    assert "no rope" not in node(draw(tiny("gpt2")), ".attention").facts


def test_latent_attention_says_its_ranks_and_what_it_caches() -> None:
    first, second = (n.facts for n in draw(tiny("mla")).nodes() if n.role == "attention")
    assert first[:5] == ("4 heads × (8 + 4 rope)", "v × 6", "q rank 12", "k/v rank 10", "causal")
    assert first[-1] == "caches 14 a token"
    assert not any(fact.startswith("q rank") for fact in second)


def test_an_operation_that_the_drawing_does_not_know_is_drawn_from_its_leaves() -> None:
    class Mixer(Op):
        component: ClassVar[str] = "attention"

        def leaves(self) -> Mapping[str, Leaf]:
            return {"down": Linear(1024, 64), "table": Table(2000, 8), "gain": Vector((64,), 1.0)}

    assert describe(Mixer()) == ("Mixer", ("down 1,024 → 64", "table 2,000 × 8"))
    assert role(Mixer()) == "attention"
    assert role(tiny("gpt2")) == "layer"
