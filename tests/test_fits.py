"""Will it fit: arithmetic by hand on a published model, and the law that one more than the most does not fit."""

from __future__ import annotations

import csv
import io
import json

import pytest
from click.testing import CliRunner
from tiny import TINY, tiny

from archspec.api import load
from archspec.cli.count import command
from archspec.compiler.count import Counts, count
from archspec.compiler.fits import bytes_of
from archspec.errors import UsageError
from archspec.ops.model import Model

GIB = 2**30


def test_llama_by_hand() -> None:
    """8,030,261,248 parameters of 2 bytes. A token keeps 2 · 8 heads · 128 numbers of 2 bytes in each of 32 layers: 128 KiB.

    What 24 GiB leave is 25,769,803,776 - 16,060,522,496 = 9,709,281,280 bytes: 74,075 tokens and a rest. A sequence of 4,096
    keeps half a GiB: 18 of them. 80 GB hold 487,819 tokens, which is more than the model's context.
    """
    counts = load("llama-3.1-8b").count(precision="bf16", length=4096)
    fit = counts.fits("24GiB")
    assert fit
    assert fit.left["weights"] == 9_709_281_280
    assert fit.left["inference"] == 9_709_281_280 - GIB // 2
    assert (fit.tokens, fit.batch) == (9_709_281_280 // 131_072, 18) == (74_075, 18)
    assert counts.fits("80GB").tokens == 131_072
    assert (
        load("llama-3.1-8b", ["context_length=none"]).count(precision="bf16", length=4096).fits("80GB").tokens
        == 487_819
    )
    assert counts.fits(16_060_522_496 + GIB // 2)
    assert not counts.fits(16_060_522_496 + GIB // 2 - 1)


def test_training_by_hand() -> None:
    """GPT-2 in float32: weights, gradients and two moments are 16 bytes a parameter, beside the activations of 12 layers."""
    counts = load("gpt2").count(length=8)
    assert counts.training
    whole = 16 * 124_439_808 + counts.training.activations
    assert counts.fits(whole).left["training"] == 0
    checkpointed = whole - counts.training.activations + counts.training.checkpointed
    assert counts.fits(checkpointed).left["training_checkpointed"] == 0
    assert counts.fits(whole).record()["left"]["training_checkpointed"] == whole - checkpointed > 0
    assert load("gpt2").count(precision="int4").fits(whole).left["training"] is None


def counted(model: Model, batch: int, tokens: int, source: int) -> Counts:
    """Asked anew, as another call of `count`."""
    beside = {"source_length": source} if source else {}
    return count(model, context_length=48, batch=batch, length=tokens, **beside)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [n for n in TINY if tiny(n).form != "encoder"])
def test_the_most_fits_and_one_more_does_not(name: str) -> None:
    model = tiny(name, "context_length=48")
    asked = counted(model, 3, 20, 7 if model.form == "encoder_decoder" else 0)
    if not asked.caches:
        return
    source = asked.lengths.source
    weights = asked.weight_bytes
    for spare in (0, 1, 5_000, 20_001, 77_777, 10**6):
        fit = asked.fits(weights + spare)
        assert bool(fit) == (asked.cache_bytes <= spare)
        tokens, batch = fit.tokens, fit.batch
        assert tokens is not None
        assert batch is not None
        assert 0 <= tokens <= 48
        assert not tokens or counted(model, 3, tokens, source).cache_bytes <= spare
        assert tokens == 48 or counted(model, 3, tokens + 1, source).cache_bytes > spare
        assert not batch or counted(model, batch, 20, source).cache_bytes <= spare
        assert counted(model, batch + 1, 20, source).cache_bytes > spare


def test_windows_end_what_a_context_takes() -> None:
    """All layers keep 8 tokens: a batch that holds 8 holds any number of them, and without a context there is no end."""
    model = tiny("gpt2", "embedding.position=none", "decoder.attention.position=none", "decoder.attention.window=8")
    counts = count(model, length=8)
    assert counts.fits(counts.memory["inference"] or 0).tokens is None
    assert counts.fits((counts.memory["inference"] or 0) - 1).tokens == 7
    assert count(model, context_length=100, length=8).fits(counts.memory["inference"] or 0).tokens == 100


def test_a_table_of_positions_ends_a_context() -> None:
    model = tiny("gpt2")
    assert count(model, context_length=20, length=8).fits("1GiB").tokens == 20
    assert count(model, length=8).fits("1GiB").tokens == 24


@pytest.mark.parametrize(
    ("said", "n"),
    [
        ("24GiB", 24 * 2**30), ("80GB", 80 * 10**9), ("512MiB", 512 * 2**20), ("512 mib", 512 * 2**20), ("1.5TiB", 3 * 2**39),
        ("7kB", 7000), ("0.3GB", 300_000_000), ("1234", 1234), ("5B", 5),
    ],
)  # fmt: skip
def test_sizes(said: str, n: int) -> None:
    assert bytes_of(said) == n


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("24G", "24GiB"),
        ("24g", "24GB"),
        ("16k", "16kB"),
        ("a lot", "24GiB"),
        ("-1GiB", "24GiB"),
        ("", "24GiB"),
        ("1e9", "24GiB"),
        ("\N{ARABIC-INDIC DIGIT THREE}GiB", "24GiB"),
    ],
)
def test_what_is_no_size_is_answered_with_one(said: str, remedy: str) -> None:
    with pytest.raises(UsageError, match="is no size") as error:
        bytes_of(said)
    assert remedy in (error.value.remedy or "")


def test_the_command_answers_by_its_exit_code_and_in_every_format() -> None:
    def said(size: str, *flags: str) -> tuple[int, str]:
        done = CliRunner().invoke(
            command, ["llama-3.1-8b", "--precision", "bf16", "--length", "4096", "--fits", size, *flags],
            standalone_mode=False,
        )  # fmt: skip
        return done.return_value, done.stdout

    code, text = said("24GiB")
    assert code == 0
    assert "Fits into 24.0 GiB (25,769,803,776 bytes): 1 × 4,096 tokens" in text
    assert "74,075 of its 131,072 tokens" in text
    assert "not in it: what inference computes on the way (activations)" in text
    code, text = said("15GiB")
    assert code == 1
    assert "Does not fit into 15.0 GiB" in text
    code, text = said("24GiB", "--format", "json")
    assert (code, json.loads(text)["fits"]) == (0, load_fit())
    code, text = said("16GB", "--format", "csv")
    rows = {
        (r["row"], r["quantity"]): int(r["value"]) for r in csv.DictReader(io.StringIO(text)) if r["table"] == "fits"
    }
    assert code == 1
    assert rows["weights", "bytes_left"] == 16 * 10**9 - 16_060_522_496
    assert (rows["most", "tokens"], rows["most", "batch"]) == (0, 0)
    assert said("24GiB", "--format", "markdown")[1].count("74,075 of its") == 1


def load_fit() -> dict[str, object]:
    return load("llama-3.1-8b").count(precision="bf16", length=4096).fits(24 * GIB).record()


def test_of_an_encoder_the_weights_are_all_there_is() -> None:
    done = CliRunner().invoke(command, ["bert-base", "--fits", "1GiB"], standalone_mode=False)
    assert done.return_value == 0
    assert "largest batch" not in done.stdout


def test_paths_are_not_asked_whether_they_fit() -> None:
    done = CliRunner().invoke(command, ["gpt2", "--fits", "1GiB", "--by", "path"], standalone_mode=False)
    assert isinstance(done.exception, UsageError)
