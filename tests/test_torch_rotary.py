"""Stretched rotations, against transformers' own frequencies and, where a sequence's length bends them, arithmetic by hand."""

from __future__ import annotations

import cmath
import math
from typing import Any

import pytest
import torch
from tiny import tiny
from torch import Tensor
from torch_help import left_padded, normal, perturbed, tokens
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from archspec.exporters.torch.cache import GrowingCache, StaticCache
from archspec.exporters.torch.module import Transformer, build
from archspec.exporters.torch.places import Places
from archspec.exporters.torch.tables import constants
from archspec.exporters.torch.words import TorchRun
from archspec.ops.rotary import Dynamic, Linear, LongRope, Ramp, Rope, Scaling, Yarn, longrope_temperature

SHORT, LONG = tuple(1.0 + i / 10 for i in range(8)), tuple(1.0 + i for i in range(8))
CLOSE: dict[str, Any] = {"atol": 1e-12, "rtol": 0}


def theirs(kind: str, length: int | None = None, **parameters: Any) -> tuple[Tensor, float]:
    """Frequencies for heads of 16 channels, and the factor of cos and sin. Their arithmetic is float32."""
    parameters = {"rope_type": kind, "rope_theta": 500.0, "original_max_position_embeddings": 64, **parameters}
    config = LlamaConfig(hidden_size=16, num_attention_heads=1, max_position_embeddings=256, rope_parameters=parameters)
    if kind == "dynamic":
        config.max_position_embeddings = 64
    return ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"), seq_len=length)  # type: ignore[no-any-return]


def turned(rope: Rope, positions: Tensor) -> Tensor:
    """B T dim/2 complex: what each pair is turned by and stretched to."""
    t = TorchRun({rope: constants(rope)}, {"tokens": Places(1, torch.device("cpu"))})
    x = torch.zeros(*positions.shape, 16, dtype=torch.float64)
    x[..., :8] = 1.0
    y = t.rope(x.unsqueeze(1), positions, rope).squeeze(1)
    return torch.complex(y[..., :8], y[..., 8:])


@pytest.mark.parametrize(
    ("scaling", "kind", "parameters"),
    [
        (Linear(3.0), "linear", {"factor": 3.0}),
        (Ramp(8.0, 64), "llama3", {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}),
        (Ramp(8.0, 64, 2.0, 5.0), "llama3", {"factor": 8.0, "low_freq_factor": 2.0, "high_freq_factor": 5.0}),
        (Yarn(4.0, 64, magnitude=0.1 * math.log(4) + 1), "yarn", {"factor": 4.0}),
        (Yarn(4.0, 64, 16.0, 2.0, False, 0.1 * math.log(4) + 1), "yarn",
         {"factor": 4.0, "beta_fast": 16.0, "beta_slow": 2.0, "truncate": False}),
        (Yarn(4.0, 64), "yarn", {"factor": 4.0, "mscale": 0.7, "mscale_all_dim": 0.7}),
        (LongRope(64, SHORT, LONG, longrope_temperature(4.0, 64)), "longrope",
         {"factor": 4.0, "short_factor": SHORT, "long_factor": LONG}),
    ],
    ids=str,
)  # fmt: skip
def test_frequencies_are_those_of_transformers(scaling: Scaling, kind: str, parameters: dict[str, Any]) -> None:
    frequencies, magnitude = theirs(kind, **parameters)
    rope = Rope(16, 500.0, scaling=scaling)
    assert rope.frequencies() == pytest.approx(frequencies.tolist(), rel=1e-6)
    assert rope.magnitude == pytest.approx(magnitude, rel=1e-7)
    at = torch.arange(5).unsqueeze(0)
    want = torch.polar(torch.full((5, 8), magnitude), at[0, :, None] * frequencies)
    torch.testing.assert_close(turned(rope, at)[0], want.to(torch.complex128), atol=5e-6, rtol=0)


@pytest.mark.parametrize("length", [5, 64, 65, 100, 200])
def test_the_longest_position_of_a_row_bends_its_frequencies(length: int) -> None:
    at = torch.tensor([[0, 1, length - 1], [0, 0, 2]])
    dynamic, longrope = (
        Rope(16, 500.0, scaling=Dynamic(2.0, 64)),
        Rope(16, 500.0, scaling=LongRope(64, SHORT, LONG, 1.1)),
    )
    bent = {
        dynamic: theirs("dynamic", length, factor=2.0)[0],
        longrope: theirs("longrope", length, factor=4.0, short_factor=SHORT, long_factor=LONG)[0],
    }
    for rope, frequencies in bent.items():
        y = turned(rope, at)
        for row, f in ((0, frequencies.double()), (1, torch.tensor(rope.frequencies(), dtype=torch.float64))):
            want = torch.polar(torch.full((3, 8), rope.magnitude, dtype=torch.float64), at[row, :, None] * f)
            torch.testing.assert_close(y[row], want, atol=1e-4, rtol=0)


def test_dynamic_growth_by_hand() -> None:
    at, base = torch.tensor([[11]]), 500.0 * (2.0 * 12 / 8 - 1) ** (16 / 14)  # 12 tokens where 8 were trained
    y = turned(Rope(16, 500.0, scaling=Dynamic(2.0, 8)), at)[0, 0]
    for i in range(8):
        assert abs(y[i].item() - cmath.exp(1j * 11 * base ** (-2 * i / 16))) < 1e-12


# ------------------------------------------------------------------------------- whole models whose length bends angles


def variant(net: Transformer, name: str, *overrides: str) -> Transformer:
    other = build(tiny(name, *overrides), dtype="float64").eval()
    other.load_state_dict(net.state_dict())
    return other


AT = "decoder.attention.position.scaling"
STATIC = {  # a model whose angles are the same at every length: at up to 6 tokens, and at 13
    "dynamic": ([f"{AT}=none"], [f"{AT}={{kind: ntk, alpha: {2 * 13 / 6 - 1}}}"]),
    "longrope": ([f"{AT}.long=[1.0, 1.1, 1.3, 1.5]"], [f"{AT}.short=[1.0, 2.0, 3.0, 5.0]"]),
}


@pytest.mark.parametrize("name", STATIC)
def test_short_sequences_turn_as_trained_and_long_ones_by_their_length(name: str) -> None:
    net, ids = perturbed(name), tokens(2, 13)
    short, long = (variant(net, name, *overrides) for overrides in STATIC[name])
    torch.testing.assert_close(net(ids[:, :6]), short(ids[:, :6]), **CLOSE)
    torch.testing.assert_close(net(ids), long(ids), **CLOSE)
    assert (net(ids) - short(ids)).abs().max() > 1e-3


@pytest.mark.parametrize("name", STATIC)
def test_each_row_has_the_length_of_its_tokens(name: str) -> None:
    net, ids, pads = perturbed(name), tokens(3, 10), [0, 3, 5]
    padded, mask = left_padded(ids, pads)
    y = net(padded, mask)
    for row, n in enumerate(pads):
        torch.testing.assert_close(y[row, n:], net(ids[row : row + 1, : 10 - n])[0], **CLOSE)


@pytest.mark.parametrize("name", STATIC)
def test_cached_decoding_within_the_original_context_is_the_full_forward_pass(name: str) -> None:
    net, ids = perturbed(name), tokens(2, 6)
    for cache in (GrowingCache(), StaticCache(net.op, 2, 13, torch.float64)):
        with torch.no_grad():
            parts = [net(ids[:, a:b], cache=cache) for a, b in ((0, 3), (3, 4), (4, 6))]
        torch.testing.assert_close(torch.cat(parts, 1), net(ids), **CLOSE)


@pytest.mark.parametrize("name", STATIC)
def test_a_cached_key_keeps_its_angle(name: str) -> None:
    net, ids, grown = perturbed(name), tokens(2, 8), GrowingCache()
    fixed = StaticCache(net.op, 2, 13, torch.float64)
    with torch.no_grad():
        net(ids[:, :6], cache=grown), net(ids[:, :6], cache=fixed)
        before = {path: keys.clone() for path, keys in grown.slots.items()}
        after = [net(ids[:, 6:], cache=cache) for cache in (grown, fixed)]
    torch.testing.assert_close(after[0], after[1], **CLOSE)
    assert (after[0] - net(ids)[:, 6:]).abs().max() > 1e-3
    assert all(torch.equal(grown.slots[path][:, :, :6], keys) for path, keys in before.items())


def test_partial_rotations_are_stretched_too() -> None:
    rope = Rope(8, 500.0, interleaved=True, scaling=Yarn(4.0, 64, magnitude=1.3))
    t = TorchRun({rope: constants(rope)}, {"tokens": Places(4, torch.device("cpu"))})
    x = normal(1, 2, 4, 12)
    y = t.rope(x, t.positions("tokens"), rope)
    for p, (i, f) in [(p, pair) for p in range(4) for pair in enumerate(rope.frequencies())]:
        want = 1.3 * complex(*x[0, 1, p, 2 * i : 2 * i + 2]) * cmath.exp(1j * p * f)
        assert abs(complex(*y[0, 1, p, 2 * i : 2 * i + 2]) - want) < 1e-12
    assert torch.equal(y[..., 8:], x[..., 8:])
