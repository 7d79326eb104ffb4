"""Bounds by the roofline: hand arithmetic on published sizes, and the laws that bounds have."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from tiny import TINY, tiny

from archspec import load
from archspec.cli.limits import command
from archspec.compiler.devices import DEVICES, device
from archspec.compiler.limits import limits
from archspec.compiler.precision import precision
from archspec.errors import UsageError

H100 = DEVICES["h100"]


def test_a_token_of_llama_8b_by_hand() -> None:
    """Every weight but the token table, which gives a row, in 2 bytes; keys and values of 8 heads of 128 in 32 layers."""
    (found,) = load("llama-3.1-8b").limits("h100", contexts=[1024], precision="bf16").limits
    weights = 2 * (8_030_261_248 - 128_256 * 4096)
    cache = 2 * (2 * 32 * 8 * 128) * 1024
    assert found.step
    assert (found.step.bytes, found.cache) == (weights + cache, cache)
    assert found.step.seconds == (weights + cache) / 3.35e12
    assert found.step.bound == "memory"
    assert found.left == (80 << 30) - 2 * 8_030_261_248 - cache


def test_a_prompt_of_llama_8b_by_hand() -> None:
    """2 FLOPs a weight of the layers and token, the head once, and 4·D for each pair that the causal mask lets through."""
    (found,) = load("llama-3.1-8b").limits("h100", contexts=[1024], precision="bf16").limits
    head, norms = 128_256 * 4096, 65 * 4096
    layers = 8_030_261_248 - 2 * head - norms
    flops = 2 * 1024 * layers + 2 * head + 32 * 4 * 4096 * (1024 * 1025 // 2)
    assert (found.prompt.flops, found.prompt.bound) == (flops, "compute")
    assert found.prompt.seconds == flops / 989.4e12


@pytest.mark.parametrize("name", TINY)
def test_bounds_are_bounds(name: str) -> None:
    """Neither a faster memory nor a higher peak makes anything slower; and more sequences never take less in all."""
    model, fp32 = tiny(name), precision("fp32")

    def seconds(batch: int = 1, **better: Any) -> list[float]:
        found = limits(model, H100.replaced(**better), fp32, context_length=24, batch=batch, contexts=[24])
        return [c.seconds for limit in found.limits for c in (limit.prompt, limit.step) if c]

    for better in ({"bandwidth": 1e13}, {"fp32": 1e15}, {"bandwidth": 1e13, "fp32": 1e15}):
        assert all(a <= b for a, b in zip(seconds(**better), seconds(), strict=True))
    assert all(one <= four < 4.000001 * one for one, four in zip(seconds(), seconds(4), strict=True))


def test_a_device_may_be_said_by_what_it_can_do() -> None:
    mine = device("24GiB, 58GB/s, 0.2TFLOPS")
    assert (mine.memory, mine.bandwidth, mine.peak("fp32"), mine.peak("bf16")) == (24 << 30, 58e9, 2e11, 2e11)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("h1000", "did you mean h100?"),
        ("abacus", "there are `t4`, "),
        ("24GiB,58GB/s", "24GiB,58GB/s,200GFLOPS"),
        ("24GiB,58GB,200GFLOPS", "58GB/s"),
        ("24GiB,58GB/s,0GFLOPS", "200GFLOPS"),
        ("24,58GB/s,fast", "200GFLOPS"),
        ("many,58GB/s,1TFLOPS", "GiB"),
    ],
)
def test_what_is_no_device_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        device(text)
    assert said in str(error.value.remedy)


def test_what_a_device_or_a_model_has_not_is_refused() -> None:
    gpt2 = load("gpt2")
    with pytest.raises(UsageError, match="does not compute in bf16"):
        gpt2.limits("t4", precision="bf16")
    with pytest.raises(UsageError, match="1,024 tokens, and 1,025 are asked for"):
        gpt2.limits("t4", contexts=[16, 1025])


def test_the_command_says_whether_it_fits() -> None:
    def called(*args: str) -> Any:
        return CliRunner().invoke(command, args, standalone_mode=False)

    fits = called("llama-3.1-8b", "--on", "h100", "--precision", "bf16", "--format", "json")
    record = json.loads(fits.stdout)
    assert [limit["context"] for limit in record["limits"]] == [1024, 131072]
    assert all(limit["fits"] for limit in record["limits"])
    assert fits.return_value == 0
    big = called("llama-3.1-8b", "--on", "h100", "--context", "1024,131072", "--batch", "8", "--precision", "bf16")
    assert (big.return_value, "too little" in big.stdout) == (1, True)
