"""What PyTorch's own tools make of the built module: its FLOP counter, compile and export."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tiny import TINY, tiny
from torch._dynamo.testing import CompileCounterWithBackend
from torch.export import Dim, export
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from torch_help import SOURCE, left_padded, perturbed, source, tokens

from archspec.compiler.flops import Lengths, count_flops
from archspec.exporters.torch.cache import GrowingCache, StaticCache
from archspec.exporters.torch.module import build
from archspec.ops.model import Model

COMPILED = (
    "gpt2",
    "llama",
    "sandwich",
    "bert",
    "t5like",
    "chunk",
    "odd",
    "classifier",
    "t5",
    "sinks",
    "experts",
    "mla",
    "longrope",
)


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def dense(model: Model, lengths: Lengths) -> int:
    flops = count_flops(model)
    return sum(p.at(flops.value(lengths)) for p in flops.dense.values())


@pytest.mark.parametrize("name", TINY)
def test_flops_are_those_of_torchs_counter(name: str) -> None:
    net = build(tiny(name), device="meta").eval()
    # The fused kernels of a CPU count as nothing there: see the plain products.
    with torch.device("meta"), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        net(
            torch.zeros(2, 9, dtype=torch.long),
            **({"source": torch.zeros(2, SOURCE, dtype=torch.long)} if source(net) else {}),
        )
    assert counter.get_total_flops() == dense(net.op, Lengths(2, 9, 0, SOURCE))


@pytest.mark.parametrize(("past", "new"), [(2, 1), (9, 4)])
@pytest.mark.parametrize("name", ["gpt2", "prefix", "odd", "seq2seq", "t5like", "t5", "buckets", "moe", "experts"])
def test_flops_of_decoding_are_those_of_torchs_counter(name: str, past: int, new: int) -> None:
    net, cache = build(tiny(name), device="meta").eval(), GrowingCache()
    with torch.device("meta"), sdpa_kernel(SDPBackend.MATH):
        first = {"source": torch.zeros(2, SOURCE, dtype=torch.long)} if source(net) else {}
        net(torch.zeros(2, past, dtype=torch.long), cache=cache, **first)
        with FlopCounterMode(display=False) as counter:
            net(torch.zeros(2, new, dtype=torch.long), cache=cache)
    assert counter.get_total_flops() == dense(net.op, Lengths(2, new, past, SOURCE))


@pytest.mark.parametrize("name", COMPILED)
def test_the_whole_model_compiles_to_one_graph(name: str) -> None:
    net = perturbed(name)
    ids, mask = left_padded(tokens(2, 9), [0, 2])
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(ids, mask, **source(net)), net(ids, mask, **source(net)), atol=1e-12, rtol=0)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", ["llama", "chunk", "t5like", "alibi", "experts", "mla"])
def test_six_decode_steps_are_one_graph(name: str, padded: bool) -> None:
    net = perturbed(name)
    ids, mask = left_padded(tokens(2, 9), [0, 2 * padded])
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(net, fullgraph=True, backend=counter)
    cache = StaticCache(net.op, 2, 10, torch.float64, source=SOURCE)
    with torch.no_grad():
        steps = [net(ids[:, :3], mask[:, :3], cache=cache, **source(net))]
        steps += [compiled(ids[:, i : i + 1], cache=cache) for i in range(3, 9)]
        whole = net(ids, mask, **source(net))
    torch.testing.assert_close(torch.cat(steps, 1)[mask > 0], whole[mask > 0], atol=1e-12, rtol=0)
    assert counter.frame_count == 1


@pytest.mark.parametrize("name", COMPILED)
def test_export_leaves_batch_and_lengths_open(name: str) -> None:
    net = perturbed(name)
    ids, mask = left_padded(tokens(2, 9), [0, 2])
    shapes = {"ids": {0: Dim("B"), 1: Dim("T")}, "mask": {0: Dim("B"), 1: Dim("T")}}
    if source(net):
        shapes["source"] = {0: Dim("B"), 1: Dim("M")}
    program = export(net, (ids, mask), source(net), dynamic_shapes=shapes).module()
    for batch, length, pads in ((3, 5, [2, 0, 1]), (2, 17, [0, 9])):
        ids, mask = left_padded(tokens(batch, length), pads)
        want = net(ids, mask, **source(net, batch, 4))
        torch.testing.assert_close(program(ids, mask, **source(net, batch, 4)), want, atol=1e-12, rtol=0)


def test_export_without_a_mask() -> None:
    net = perturbed("llama")
    program = export(net, (tokens(2, 9),), dynamic_shapes={"ids": {0: Dim("B"), 1: Dim("T")}}).module()
    ids = tokens(3, 17)
    torch.testing.assert_close(program(ids), net(ids), atol=1e-12, rtol=0)
