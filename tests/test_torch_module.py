"""The built module: an ordinary tree that holds what the count says, tied where it is tied, and filled as the spec says."""

from __future__ import annotations

import copy
import io
from math import sqrt
from typing import Any

import pytest
import torch
from tiny import DECODERS, ENCODERS, SEQ2SEQ, TINY, tiny
from torch import nn
from torch_help import left_padded, perturbed, source, tokens

from archspec.errors import UsageError
from archspec.exporters.torch.cache import GrowingCache
from archspec.exporters.torch.module import Transformer, build
from archspec.language.model import FanInInit, NormalInit, XavierInit


@pytest.mark.parametrize("name", TINY)
def test_parameters_are_those_that_were_counted(name: str) -> None:
    net = build(tiny(name), device="meta")
    counted = [(t.path, t.shape) for t in net.op.tensors()]
    assert [(path, tuple(p.shape)) for path, p in net.stored()] == counted
    trained = {t.path for t in net.op.tensors() if t.trained}
    assert {id(p) for p in net.parameters()} == {id(p) for path, p in net.stored() if path in trained}
    assert {id(b) for b in net.buffers()} == {id(b) for path, b in net.stored() if path not in trained}
    assert sum(p.numel() for p in net.parameters()) == sum(t.size for t in net.op.tensors() if t.trained)
    assert all(x.is_meta for _, x in net.stored())


def test_leaves_are_ordinary_modules_under_their_paths() -> None:
    net = build(tiny("llama"), device="meta")
    assert type(net.get_submodule("decoder.layers.2.attention.q")) is nn.Linear
    assert type(net.get_submodule("decoder.embedding.tokens")) is nn.Embedding
    assert type(net.get_parameter("decoder.layers.0.attention_input_norm.weight")) is nn.Parameter


@pytest.mark.parametrize("name", TINY)
def test_gradients_reach_every_parameter(name: str) -> None:
    net = perturbed(name).train()
    net(tokens(2, 9), **source(net)).square().sum().backward()
    for path, p in net.named_parameters():
        assert p.grad is not None, path
        assert p.grad.isfinite().all(), path
        if not path.endswith("attention.k.bias"):  # adds the same to every score of a query
            assert p.grad.abs().max() > 1e-9, path


def ties(net: Transformer) -> bool:
    return all(net.get_parameter(a) is net.get_parameter(b) for a, b in net.op.ties.items())


@pytest.mark.parametrize("name", ["gpt2", "seq2seq", "albert", "shared", "t5"])
def test_ties_are_one_storage_and_stay_so(name: str) -> None:
    net = build(tiny(name))
    assert net.op.ties
    assert ties(net)
    assert ties(net.double())
    assert ties(copy.deepcopy(net))
    net.load_state_dict({k: v.clone() for k, v in net.state_dict().items()}, assign=True)
    assert ties(net)
    assert ties(build(tiny(name), device="meta").to_empty(device="cpu"))


def test_what_was_untied_on_purpose_stays_untied() -> None:
    net = build(tiny("gpt2"))
    net.head.out.weight = nn.Parameter(net.head.out.weight.detach().clone())
    assert not ties(net.double())


@pytest.mark.parametrize("name", ["gpt2", "seq2seq", "albert", "t5", "buckets", "experts"])
def test_state_round_trip(name: str) -> None:
    net, ids = perturbed(name), tokens(2, 9)
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    for state in (torch.load(file), dict(net.stored())):  # with every name, and with each tensor once
        other = build(tiny(name), dtype="float64", seed=5).eval()
        other.load_state_dict(state)
        assert torch.equal(other(ids, **source(net)), net(ids, **source(net)))
        assert ties(other)


def test_tables_keep_their_precision_in_half() -> None:
    net = build(tiny("llama"), dtype="bfloat16").to(torch.float64).eval()
    for rope, table in net.tables.items():
        assert table.tolist() == rope.frequencies()
    same = build(tiny("llama"), dtype="float64").eval()
    same.load_state_dict(net.state_dict())
    assert torch.equal(net(tokens(2, 9)), same(tokens(2, 9)))


@pytest.mark.parametrize("name", TINY)
def test_half_precision_is_close(name: str) -> None:
    ids, mask = left_padded(tokens(2, 9), [0, 2])
    net = build(tiny(name), dtype="bfloat16").eval()
    exact = copy.deepcopy(net).double()
    kwargs = source(net)
    want, got = exact(ids, mask, **kwargs), net(ids, mask, **kwargs)
    assert got.dtype == torch.bfloat16
    assert got.isfinite().all()
    keep = mask > 0 if want.dim() == 3 else slice(None)
    assert (got - want)[keep].abs().max() < 0.04 * want[keep].std() + 0.02 * want[keep].abs().max()


@pytest.mark.parametrize("name", ["gpt2", "llama", "sandwich", "t5like", "t5", "alibi", "sinks", "mla", "moe"])
def test_autocast_is_close(name: str) -> None:
    net, ids = build(tiny(name)).train(), tokens(2, 9)
    with torch.autocast("cpu", torch.bfloat16):
        y = net(ids, **source(net))
    y.float().square().mean().backward()
    want = net(ids, **source(net))
    assert (y - want).abs().max() < 0.06 * want.std() + 0.02 * want.abs().max()


# ------------------------------------------------------------------------------------------------------ fresh weights


def test_a_seed_is_enough_and_touches_nothing_else() -> None:
    before = torch.get_rng_state()
    a, b, c = (build(tiny("gpt2"), seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    for (_, x), (_, y) in zip(a.stored(), b.stored(), strict=True):
        assert torch.equal(x, y)
    assert not torch.equal(a.head.out.weight, c.head.out.weight)


def test_no_seed_draws_from_the_global_generator() -> None:
    torch.manual_seed(3)
    a = build(tiny("gpt2"), seed=None).head.out.weight
    assert not torch.equal(build(tiny("gpt2"), seed=None).head.out.weight, a)
    torch.manual_seed(3)
    assert torch.equal(build(tiny("gpt2"), seed=None).head.out.weight, a)


def test_one_draw_for_every_dtype() -> None:
    single, half = build(tiny("llama")), build(tiny("llama"), dtype="bfloat16")
    for (_, a), (_, b) in zip(single.stored(), half.stored(), strict=True):
        assert torch.equal(a.bfloat16(), b)


def spread(net: Transformer, path: str) -> float:
    return net.get_parameter(path).std().item()


def test_normal_weights_zero_biases_constant_norms() -> None:
    net = build(tiny("gpt2"), NormalInit(std=0.05, residual="depth_scaled"))
    layer = "decoder.layers.1."
    for path in ("decoder.embedding.tokens.weight", f"{layer}attention.q.weight", f"{layer}ffn.up.weight"):
        assert spread(net, path) == pytest.approx(0.05, rel=0.1)
    for path in (f"{layer}attention.o.weight", f"{layer}ffn.down.weight"):  # 2 layers
        assert spread(net, path) == pytest.approx(0.05 / sqrt(4), rel=0.1)
    assert all((p == 0).all() for path, p in net.stored() if path.endswith(".bias"))
    assert all((p == 1).all() for path, p in net.stored() if path.endswith("norm.weight"))
    assert all((p == 0).all() for path, p in build(tiny("sandwich")).stored() if path.endswith("norm.weight"))


def test_truncated_normal_is_cut_at_two_deviations() -> None:
    weight = build(tiny("gpt2"), NormalInit(std=0.05, truncated=True)).head.out.weight
    assert 0.095 < weight.abs().max() <= 0.1
    assert weight.std().item() == pytest.approx(0.05 * 0.88, rel=0.1)


def test_xavier_and_fan_in() -> None:
    up = build(tiny("gpt2"), XavierInit(gain=2.0)).get_parameter("decoder.layers.0.ffn.up.weight")  # 32 -> 48
    bound = 2.0 * sqrt(6 / (32 + 48))
    assert 0.98 * bound < up.abs().max() <= bound
    down = build(tiny("gpt2"), FanInInit(gain=1.5)).get_parameter("decoder.layers.0.ffn.down.weight")  # 48 -> 32
    assert down.std().item() == pytest.approx(1.5 / sqrt(48), rel=0.1)


# ------------------------------------------------------------------------------------------------- what does not fit


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("gpt2", {"ids": torch.zeros(4, dtype=torch.long)}, "integers of shape B T"),
        ("gpt2", {"ids": torch.zeros(1, 4)}, "integers of shape B T"),
        ("gpt2", {"ids": tokens(1, 25)}, "25 tokens, but the table of positions has 24 rows"),
        ("gpt2", {"mask": torch.ones(2, 8)}, r"\(2, 8\) where \(2, 9\) is meant"),
        ("gpt2", {"mask": torch.ones(9)}, r"\(9,\) where \(2, 9\) is meant"),
        ("gpt2", {"source": tokens(2, 3)}, "one stack"),
        ("gpt2", {"source_mask": torch.ones(2, 3)}, "none was given"),
        ("gpt2", {"token_types": tokens(2, 9)}, "no table of token types"),
        ("gpt2", {"prefix_length": torch.ones(2, dtype=torch.long)}, "this model has none"),
        ("bert", {"cache": GrowingCache()}, "nothing to cache"),
        ("bert", {"token_types": tokens(2, 3)}, "the token types have shape"),
        ("seq2seq", {}, "needs `source`"),
        ("seq2seq", {"source": tokens(3, 4)}, "3 sources for 2 rows"),
        ("seq2seq", {"source": tokens(2, 4), "source_mask": torch.ones(2, 5)}, r"\(2, 5\) where \(2, 4\) is meant"),
    ],
)
def test_inputs_that_do_not_fit_are_told_so(name: str, args: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build(tiny(name))(**{"ids": tokens(2, 9), **args})


def test_a_source_is_given_once() -> None:
    net, cache = perturbed("seq2seq"), GrowingCache()
    net(tokens(2, 3), cache=cache, **source(net))
    with pytest.raises(UsageError, match="first call only"):
        net(tokens(2, 1), cache=cache, **source(net))


def test_a_table_of_positions_ends_at_its_last_position_not_at_a_column() -> None:
    net = build(tiny("gpt2"))
    ids, mask = left_padded(tokens(2, 26), [2, 3])
    assert net(ids, mask).shape == (2, 26, 61)
    mask[0, 1] = 1
    with pytest.raises(UsageError, match="25 tokens"):
        net(ids, mask)
    cache = GrowingCache()
    net(tokens(1, 20), cache=cache)
    with pytest.raises(UsageError, match="25 tokens"):
        net(tokens(1, 5), cache=cache)


def test_an_unknown_dtype_is_told_so() -> None:
    with pytest.raises(UsageError, match="float8"):
        build(tiny("gpt2"), dtype="float8")


def test_every_tiny_model_is_in_one_list() -> None:
    assert {*DECODERS, *SEQ2SEQ, *ENCODERS} == set(TINY)


def test_a_model_without_room_is_refused_before_it_is_allocated() -> None:
    import archspec

    arch = archspec.load("deepseek-v3")
    with pytest.raises(UsageError, match="671,026,404,352 parameters"):
        arch.build()
    assert next(arch.build(device="meta").parameters()).device.type == "meta"
