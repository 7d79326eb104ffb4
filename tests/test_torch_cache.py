"""Cached decoding is the full forward pass, whatever the pieces; and a cache is as large as the arithmetic says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny import DECODERS, SEQ2SEQ, tiny
from torch import Tensor
from torch_help import SOURCE, left_padded, perturbed, source, tokens

from archspec.errors import UsageError
from archspec.exporters.torch.cache import GrowingCache, StaticCache
from archspec.exporters.torch.module import Transformer

CACHED = (*DECODERS, *SEQ2SEQ)
PIECES = [(13,), (5, 8), (1,) * 13, (7, 1, 1, 4), (2, 6, 5), (6, 2, 2, 3)]


def caches(net: Transformer, batch: int = 2) -> list[GrowingCache | StaticCache]:
    return [GrowingCache(), StaticCache(net.op, batch, 14, torch.float64, source=SOURCE)]


@torch.no_grad()
def in_pieces(
    net: Transformer, ids: Tensor, pieces: tuple[int, ...], cache: Any, mask: Tensor | None = None, **first: Any
) -> Tensor:
    """The logits of ids fed piece by piece; `mask` covers all columns, `first` goes with the first piece only."""
    out, start = [], 0
    for n in pieces:
        seen = None if mask is None else mask[:, : start + n]
        out.append(net(ids[:, start : start + n], seen, cache=cache, **(first if not start else {})))
        start += n
    return torch.cat(out, 1)


@pytest.mark.parametrize("pieces", PIECES, ids=str)
@pytest.mark.parametrize("name", CACHED)
def test_cached_decoding_is_the_full_forward_pass(name: str, pieces: tuple[int, ...]) -> None:
    net, ids = perturbed(name), tokens(2, 13)
    whole = net(ids, **source(net))
    for cache in caches(net):
        torch.testing.assert_close(in_pieces(net, ids, pieces, cache, **source(net)), whole, atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", CACHED)
def test_left_padding_changes_nothing(name: str) -> None:
    net, ids, pads = perturbed(name), tokens(3, 13), [0, 3, 5]
    sources = source(net, 3)
    padded, mask = left_padded(ids, pads)
    runs = [net(padded, mask, **sources)]
    for pieces in ((5, 8), (6, 1, 1, 5), (1,) * 13):
        runs += [in_pieces(net, padded, pieces, cache, mask, **sources) for cache in caches(net, 3)]
    for row, n in enumerate(pads):
        alone = net(ids[row : row + 1, : 13 - n], **{k: x[row : row + 1] for k, x in sources.items()})[0]
        for run in runs:
            assert run.isfinite().all()
            torch.testing.assert_close(run[row, n:], alone, atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", ["gpt2", "llama", "chunk", "t5like"])
def test_a_mask_given_once_is_remembered(name: str) -> None:
    net, (padded, mask) = perturbed(name), left_padded(tokens(2, 13), [0, 4])
    whole = net(padded, mask, **source(net))
    for cache in caches(net):
        with torch.no_grad():
            first = net(padded[:, :6], mask[:, :6], cache=cache, **source(net))
        rest = in_pieces(net, padded[:, 6:], (1, 1, 5), cache)
        torch.testing.assert_close(torch.cat((first, rest), 1)[mask > 0], whole[mask > 0], atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", ["gpt2", "llama", "chunk"])
def test_padding_between_tokens_is_not_seen_by_later_ones(name: str) -> None:
    """Two prompts of different length padded on the right, then decoded together: pieces agree with the whole."""
    net, ids = perturbed(name), tokens(2, 12)
    mask = torch.ones_like(ids)
    mask[0, 3:6] = 0
    changed = torch.where(mask > 0, ids, 7)
    whole = net(ids, mask)
    assert torch.equal(net(changed, mask)[mask > 0], whole[mask > 0])
    for cache in caches(net):
        run = in_pieces(net, ids, (6, 1, 5), cache, mask)
        torch.testing.assert_close(run[mask > 0], whole[mask > 0], atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_a_padded_source_is_the_shorter_source(name: str) -> None:
    net, ids, (padded, mask) = perturbed(name), tokens(2, 6), left_padded(tokens(2, SOURCE), [0, 3])
    for cache in caches(net):
        run = in_pieces(net, ids, (2, 1, 3), cache, source=padded, source_mask=mask)
        short = net(ids[1:], source=padded[1:, 3:])
        torch.testing.assert_close(run[1:], short, atol=1e-12, rtol=0)


def test_a_prefix_sees_both_ways_and_the_rest_the_past() -> None:
    net, ids, prefix = perturbed("prefix"), tokens(2, 13), torch.tensor([5, 0])
    whole = net(ids, prefix_length=prefix)
    torch.testing.assert_close(whole[1], net(ids)[1], atol=1e-12, rtol=0)
    assert (whole[0, 0] - net(ids)[0, 0]).abs().max() > 1e-3
    for cache in caches(net):
        with torch.no_grad():
            parts = [net(ids[:, a:b], cache=cache, prefix_length=prefix) for a, b in ((0, 7), (7, 8), (8, 13))]
        torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", DECODERS)
def test_the_future_does_not_reach_the_past(name: str) -> None:
    net, ids = perturbed(name), tokens(2, 13)
    other = ids.clone()
    other[:, 8:] = (ids[:, 8:] + 1) % 61
    a, b = net(ids), net(other)
    if name in ("moe", "experts", "mixer", "gates"):  # an expert's other rows may round its product otherwise
        torch.testing.assert_close(a[:, :8], b[:, :8], atol=1e-12, rtol=0)
    else:
        assert torch.equal(a[:, :8], b[:, :8])
    assert (a[:, 8:] - b[:, 8:]).abs().amax(-1).min() > 1e-6


def test_the_bytes_of_a_cache_by_hand() -> None:
    # llama: 3 layers of 2 kv heads of 8 channels, the first two with a window of 4; batch 2; float64; keys and values
    row = 2 * 2 * 8 * 8 * 2
    net, ids = perturbed("llama"), tokens(2, 11)
    grown, fixed = GrowingCache(), StaticCache(net.op, 2, 16, torch.float64)
    for past, piece in ((0, 3), (3, 8)):
        with torch.no_grad():
            net(ids[:, past : past + piece], cache=grown)
        assert grown.nbytes == row * (2 * min(past + piece, 4) + past + piece)
    assert grown.nbytes == row * (4 + 4 + 11) == 9728
    assert fixed.nbytes == row * (4 + 4 + 16) == 12288
    assert StaticCache(net.op, 2, 3, torch.bfloat16).nbytes == row // 4 * (3 + 3 + 3)
    # t5like: 2 layers, one kv head of 8 channels over the tokens and, over the 7 of the source, one more
    assert StaticCache(tiny("t5like"), 2, 10, torch.float32, source=7).nbytes == 2 * 2 * 2 * 8 * 4 * (10 + 7)


def test_a_latent_cache_holds_the_latent_and_one_rotary_key() -> None:
    # mla: 2 layers of 10 + 4 channels, the second with a window of 5; batch 2; float64
    net, grown = perturbed("mla"), GrowingCache()
    with torch.no_grad():
        net(tokens(2, 11), cache=grown)
    assert grown.nbytes == 2 * 8 * (10 + 4) * (11 + 5) == 3584
    assert StaticCache(net.op, 2, 16, torch.float64).nbytes == 2 * 8 * (10 + 4) * (16 + 5)


def test_what_a_window_dropped_is_freed() -> None:
    net, cache = perturbed("llama"), GrowingCache()
    with torch.no_grad():
        net(tokens(2, 20), cache=cache)
    held = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in cache.slots.values()}
    assert sum(held.values()) == cache.nbytes


def test_a_static_cache_is_used_again_in_place() -> None:
    net, ids = perturbed("t5like"), tokens(2, 9)
    cache = StaticCache(net.op, 2, 12, torch.float64, source=SOURCE)
    at = [x.data_ptr() for x in cache.slots.values()]
    for sources in (source(net), {"source": tokens(2, SOURCE, seed=9)}):
        cache.reset()
        run = in_pieces(net, ids, (4, 5), cache, **sources)
        torch.testing.assert_close(run, net(ids, **sources), atol=1e-12, rtol=0)
    assert [x.data_ptr() for x in cache.slots.values()] == at


def test_gradients_flow_through_a_growing_cache() -> None:
    net, ids = perturbed("llama"), tokens(2, 9)
    whole = torch.autograd.grad(net(ids).square().sum(), [*net.parameters()])
    cache = GrowingCache()
    parts = torch.cat([net(ids[:, :5], cache=cache), net(ids[:, 5:], cache=cache)], 1)
    pieces = torch.autograd.grad(parts.square().sum(), [*net.parameters()])
    for a, b in zip(whole, pieces, strict=True):
        torch.testing.assert_close(a, b, atol=1e-9, rtol=1e-9)


def test_last_only_is_the_last_row() -> None:
    net, ids = perturbed("gpt2"), tokens(2, 9)
    torch.testing.assert_close(net(ids, last_only=True), net(ids)[:, -1:], atol=1e-12, rtol=0)


def test_a_static_cache_says_what_does_not_fit() -> None:
    net = perturbed("llama")
    cache = StaticCache(net.op, 2, 8, torch.float64)
    with pytest.raises(UsageError, match="no_grad"):
        net(tokens(2, 3), cache=cache)
    with torch.no_grad():
        cache.reset()
        with pytest.raises(UsageError, match="batch of 2, not 3"):
            net(tokens(3, 3), cache=cache)
        net(tokens(2, 6), cache=cache)
        with pytest.raises(UsageError, match="8 tokens: 6 past and 3 new"):
            net(tokens(2, 3), cache=cache)
        seq = perturbed("t5like")
        cache = StaticCache(seq.op, 2, 8, torch.float64, source=4)
        with pytest.raises(UsageError, match="source of 4 tokens, not 7"):
            seq(tokens(2, 3), cache=cache, **source(seq))
