"""Bytes of weights that a call reads. The witness is the exported graph: what its nodes read of the file."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import onnx_ir as ir
import pytest
from onnx_cases import exported
from tiny import DECODERS, SEQ2SEQ, tiny

from archspec.compiler.precision import Name, precision, storage
from archspec.compiler.reads import bytes_read
from archspec.exporters.onnx.emit import parts
from archspec.ops.model import Model

#: Where a table stands among a node's inputs, of which a call reads a row a token.
TABLES = {"Gather": 0}


def step(model: Model, tokens: int = 1, name: Name = "fp32") -> int:
    return bytes_read(model, storage(model, precision(name)), tokens, first=False)


def read_by(nodes: Iterator[ir.Node] | ir.Graph) -> int:
    """Bytes of what nodes read of the file, those of an If that are run in a step."""
    found = 0
    for node in nodes:
        if node.op_type == "If":
            found += read_by(node.attributes["then_branch"].as_graph())
        for i, value in enumerate(node.inputs):
            stored = value.const_value if value else None
            if isinstance(stored, ir.ExternalTensor) and TABLES.get(node.op_type) != i:
                found += prod(map(int, stored.shape)) * stored.dtype.itemsize
    return int(found)


#: Left out: models of which the nodes of every expert read a vector that all experts share.
@pytest.mark.parametrize("name", [n for n in (*DECODERS, *SEQ2SEQ) if n not in ("mixer", "gates")])
def test_a_step_reads_what_the_nodes_of_the_graph_read(name: str) -> None:
    """All experts, as a graph of the standard operators has them; a mixture's share is below."""
    e = exported(name)
    graph = ir.load(e.folder / parts(e.model)["cached"]).graph
    assert step(e.model, 10**6) == read_by(graph)


def test_of_a_mixture_the_chosen_experts_are_read() -> None:
    """Two of six for one token; two tokens leave an expert alone where both do, (4/6)² of the time. Layers with experts: two."""
    moe, expert = tiny("moe"), 3 * 32 * 16 * 4
    whole = step(moe, 10**6)
    assert whole - step(moe) == 2 * 4 * expert
    assert whole - step(moe, 2) == round(2 * 6 * (4 / 6) ** 2 * expert)


def test_a_step_does_not_read_the_encoder_nor_what_is_made_of_it_once() -> None:
    t5 = tiny("t5")
    tables = {f"{side}.layers.{i}.attention.table.weight" for side in ("encoder", "decoder") for i in (0, 1)}
    once = {f"decoder.layers.{i}.cross_attention.{x}.weight" for i in (0, 1) for x in "kv"}
    sizes = {t.path: 4 * t.size for t in t5.tensors() if t.path not in tables}
    first = bytes_read(t5, storage(t5, precision("fp32")), 5, first=True)
    assert first == sum(sizes.values())  # tied: the token table is the head
    assert step(t5) == sum(n for path, n in sizes.items() if not path.startswith("encoder.") and path not in once)


def test_shared_layers_are_read_as_often_as_they_are_used() -> None:
    shared, own = tiny("shared"), tiny("shared", "decoder.layers=[{repeat: 2, layers: [{attention: {window: 3}}, {}]}]")
    assert step(shared) == step(own)


def test_weights_in_blocks_are_read_as_they_are_stored() -> None:
    """4 bits and a scale of 32 for each 32 weights: 5 bits a weight, where a row has whole blocks."""
    gpt2 = tiny("gpt2")
    matrices = 2 * (4 * 32 * 32) + 61 * 32 + 2 * 32 * 48  # the second of an ffn has rows of 48
    assert step(gpt2) - step(gpt2, 1, "int4") == matrices * (32 - 5) // 8
