"""`archspec bench`: what it counts by hand, what it records, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from exported import Exported, exported
from tiny import text

from archspec.cli.bench import command
from archspec.errors import ArchspecError, UsageError
from archspec.exporters.bench.figures import Figure
from archspec.exporters.bench.measure import settle
from archspec.exporters.bench.processes import BenchError, Process
from archspec.exporters.bench.work import Work
from archspec.exporters.onnx.emit import Target
from archspec.exporters.runtime.folder import open_folder

Made = Callable[..., Exported]
FLOAT = 4


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """name, overrides -> that tiny model, exported once."""
    held: dict[tuple[str, ...], Exported] = {}

    def get(name: str, *overrides: str, target: Target = "ort") -> Exported:
        key = (target, name, *overrides)
        if key not in held:
            held[key] = exported(text(name), tmp_path_factory.mktemp("bench") / name, *overrides, target=target)
        return held[key]

    return get


def work(model: Exported) -> Work:
    return Work(open_folder(model.folder))


# ------------------------------------------------------------------------------------------------------- counted by hand


@pytest.mark.parametrize("target", ["onnx", "ort"])
def test_a_step_reads_every_weight_once_and_looks_into_tables(made: Made, target: Target) -> None:
    norm = 2 * 32
    attention = 4 * (32 * 32 + 32)
    ffn = 32 * 48 + 48 + 48 * 32 + 32
    head = 61 * 32  # the token table, which gives single rows to the embedding and all of them to the head
    layers = 2 * (2 * norm + attention + ffn)
    assert work(made("gpt2", target=target)).weight_bytes(1) == FLOAT * (layers + norm + head)


def test_rotary_and_token_tables_are_looked_into(made: Made) -> None:
    """Untied, with three kinds of tables beside the weights: what is left is the head and the layers."""
    attention = 32 * (4 + 2 + 2) * 8 + 2 * 8 + 32 * 32
    layer = 2 * 32 + attention + 3 * 32 * 48
    assert work(made("llama")).weight_bytes(1) == FLOAT * (3 * layer + 32 + 61 * 32)


def test_what_is_not_looked_into_is_the_file(made: Made) -> None:
    """The witness is the size of the weights file: without the token table, and up to where tensors start."""
    model = made("llama", target="onnx")
    size = (model.folder / "model.onnx.data").stat().st_size
    assert 0 <= size - FLOAT * 61 * 32 - work(model).weight_bytes(1) < 64 * 40


@pytest.mark.parametrize("target", ["onnx", "ort"])
def test_of_a_mixture_the_chosen_experts_are_read(made: Made, target: Target) -> None:
    """Two of six for one token. Two tokens leave an expert alone where both do: (4/6)² of the time."""
    mixture = work(made("moe", target=target))
    expert = 3 * 32 * 16 * FLOAT
    one, two, all_of_them = (mixture.weight_bytes(batch) for batch in (1, 2, 10**6))
    assert all_of_them - one == 2 * 4 * expert  # two layers leave four experts each
    assert all_of_them - two == round(2 * 6 * (4 / 6) ** 2 * expert)


def test_the_cache_that_a_step_reads(made: Made) -> None:
    """Keys and values of two heads of 8: two layers that see four tokens, one that sees all; the step's own row included."""
    llama = work(made("llama"))
    row = 2 * 2 * 8 * FLOAT
    assert llama.cache_bytes(past=9, batch=1) == row * (2 * 4 + 10)
    assert llama.cache_bytes(past=9, batch=3) == 3 * llama.cache_bytes(past=9, batch=1)
    assert llama.step_bytes(9, 3) == llama.weight_bytes(3) + llama.cache_bytes(9, 3)


def test_a_decoder_reads_the_keys_and_values_of_its_source(made: Made) -> None:
    """Beside its own: two layers, four heads of 6."""
    t5 = work(made("t5"))
    assert t5.cache_bytes(past=0, batch=1, source=7) - t5.cache_bytes(past=0, batch=1, source=5) == 2 * 2 * 2 * 4 * 6 * FLOAT


def test_a_prompt_asks_the_head_for_one_token(made: Made) -> None:
    """FLOPs by hand: products of 5 tokens, their 15 pairs, and the head once."""
    products = 2 * 5 * 2 * (4 * 32 * 32 + 2 * 32 * 48)
    pairs = 2 * 2 * 15 * 2 * 32
    assert work(made("gpt2")).prompt_flops(5, batch=1) == products + pairs + 2 * 61 * 32


def test_the_product_of_the_limit_is_the_one_with_the_most_work(made: Made) -> None:
    assert work(made("gpt2")).product() == (32, 32)  # eight of attention outweigh two of 32 × 48 each way
    assert work(made("llama")).product() == (32, 48)


# ---------------------------------------------------------------------------------------------------------------- figures


def test_a_figure_is_the_median_of_its_rounds_and_spreads_over_the_middle_half() -> None:
    figure = Figure([5, 1, 3, 2, 100])
    assert figure.median == 3
    assert figure.quartiles == (2, 5)
    assert figure.spread == pytest.approx(0.5)


def test_shares_are_taken_round_by_round() -> None:
    """A round in which everything took twice as long tells nothing about a share."""
    assert Figure([10, 5, 10]).over([20, 10, 20]).rounds == (0.5, 0.5, 0.5)


# ----------------------------------------------------------------------------------------------------------- the command


def run(model: Exported, *options: str) -> str:
    done = CliRunner().invoke(command, [str(model.folder), "--rounds", "2", *options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_record_says_everything(made: Made, tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    text = run(made("gpt2"), "--context", "3,6", "--new", "2", "--no-compile", "--threads", "1", "--json", str(file))
    assert max(map(len, text.splitlines())) <= 80
    found: dict[str, Any] = json.loads(file.read_text())
    assert found["settings"] == {
        "contexts": [3, 6], "batch": 1, "new": 2, "rounds": 2, "threads": 1, "device": "cpu",
    }  # fmt: skip
    assert found["model"]["target"] == "ort"
    assert {"processor", "cores", "memory_bytes", "cards", "load"} <= set(found["machine"])
    assert {"python", "onnxruntime", "torch", "archspec-compiler"} <= set(found["versions"])
    for limit in found["limits"]:
        assert limit["read_bytes_per_second"]["median"] > 0
        assert limit["multiply_flops_per_second"]["median"] > 0
    ours, torch = found["engines"]
    assert (ours["name"], torch["name"]) == ("archspec", "PyTorch eager")
    assert 0 < ours["peak_resident_bytes"] < torch["peak_resident_bytes"]  # one of them has PyTorch in it
    for engine in found["engines"]:
        for at, context in zip(engine["contexts"], (3, 6), strict=True):
            assert at["context"] == context
            first, prefill = (at[key]["rounds"] for key in ("first_token_seconds", "prefill_tokens_per_second"))
            assert prefill == pytest.approx([context / seconds for seconds in first])
            assert len(at["decode_tokens_per_second"]["rounds"]) == 2
            assert {"prefill_share_of_limit", "decode_share_of_limit"} <= set(at)


@pytest.mark.parametrize("name", ["bert", "classifier"])
def test_what_does_not_generate_reads_texts(made: Made, name: str) -> None:
    found = json.loads(run(made(name), "--context", "5", "--batch", "2", "--no-torch", "--format", "json"))
    (engine,) = found["engines"]
    (at,) = engine["contexts"]
    assert at["forward_tokens_per_second"]["rounds"] == pytest.approx([10 / s for s in at["forward_seconds"]["rounds"]])
    assert found["limits"][0]["step_bytes"] is None


def test_beside_an_encoder_the_context_is_the_source(made: Made) -> None:
    found = json.loads(run(made("t5"), "--context", "24", "--no-torch", "--format", "json"))
    assert found["limits"][0]["step_bytes"] > work(made("t5")).weight_bytes(1)


# ---------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("contexts", "new", "message"),
    [
        ((22,), None, "22 tokens and 7 after them are more than the context of gpt2: 24"),
        ((4, 16), 8, "16 tokens and 9 after them"),
        (None, 23, "23 new tokens do not fit a context of 24"),
    ],
)
def test_what_the_context_has_no_room_for(made: Made, contexts: Any, new: int | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        settle(open_folder(made("gpt2").folder), contexts, 1, new, 5)


def test_a_whole_text_may_fill_the_context(made: Made) -> None:
    folder = open_folder(made("bert").folder)
    assert settle(folder, (24,), 1, None, 5).contexts == (24,)
    with pytest.raises(UsageError, match="25 tokens are more than the context"):
        settle(folder, (25,), 1, None, 5)


def test_by_default_contexts_fit_the_model(made: Made) -> None:
    plan = settle(open_folder(made("gpt2").folder), None, 1, None, 5)
    assert (plan.contexts, plan.new) == ((17,), 6)  # one step more warms up: 17 + 1 + 6 = 24


@pytest.mark.parametrize("words", ["", "0", "128,", "128;256", "-1", "1e3"])
def test_lengths_that_are_none(made: Made, words: str) -> None:
    done = CliRunner().invoke(command, [str(made("gpt2").folder), "--context", words])
    assert done.exit_code == 2
    assert "is no list of lengths" in done.stderr


def test_cuda_never_falls_back(made: Made) -> None:
    from archspec.exporters.runtime.device import cuda

    if cuda().usable:
        pytest.skip("there is a card here")
    with pytest.raises(ArchspecError, match="CUDA cannot be used"):
        run(made("gpt2"), "--device", "cuda", "--no-torch")


def test_more_threads_than_cores(made: Made) -> None:
    with pytest.raises(UsageError, match="100000 threads are more"):
        run(made("gpt2"), "--threads", "100000")


# --------------------------------------------------------------------------------------------------------------- processes


def test_a_process_that_dies_says_why() -> None:
    with Process("a machine", remedy="mend it") as process, pytest.raises(BenchError, match="no engine 'steam'|KeyError"):
        process.call("open", engine="steam")


def test_what_an_engine_prints_is_no_answer(tmp_path: Path) -> None:
    from sys import executable

    from archspec.exporters.bench import remote

    program = tmp_path / "loud.py"
    program.write_text(
        "import remote\n"
        "class Loud:\n"
        "    def add(self, a, b):\n"
        "        print('adding')\n"
        "        return a + b\n"
        "remote.serve({'loud': Loud})\n"
    )
    where = {"PYTHONPATH": str(Path(remote.__file__).parent)}
    with Process("loud", [executable, str(program)], where) as process:
        process.call("open", engine="loud")
        assert process.call("add", a=2, b=3) == 5
        assert process.call("peak") > 2**20
