"""`archspec bench`: what it counts by hand, what it records, and what it refuses."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner
from exported import Exported, exported
from tiny import text

from archspec.cli.bench import command
from archspec.errors import ArchspecError, UsageError
from archspec.exporters.bench import engines
from archspec.exporters.bench.figures import Figure
from archspec.exporters.bench.measure import settle
from archspec.exporters.bench.processes import BenchError, Process
from archspec.exporters.bench.turns import WARM, Plan
from archspec.exporters.bench.work import Work
from archspec.exporters.onnx.emit import Target
from archspec.exporters.runtime.folder import open_folder
from archspec.exporters.tables import Column, Table

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


def test_a_source_is_read_within_the_first_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """What begins a generation counts: beside an encoder it runs the encoder."""
    now = [0.0]
    monkeypatch.setattr(engines.time, "perf_counter", lambda: now[0])

    def began() -> Iterator[int]:
        now[0] += 5
        return iter([1, 2])

    assert engines.between(began) == [5, 0]


@pytest.mark.parametrize(("target", "recordable"), [("onnx", False), ("ort", True)])
def test_steps_are_recorded_where_the_runtime_can(made: Made, target: Target, recordable: bool) -> None:
    engine = engines.ExportedFolder(str(made("llama", target=target).folder), "cpu", 1)
    assert engine.recordable() is recordable


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
    """Untied: what is left is the layers and the head. Heads of 16, so that the fused attention has tables of angles."""
    model = made("llama", "decoder.attention.heads=2", "decoder.attention.kv_heads=1")
    attention = 32 * (2 + 1 + 1) * 16 + 2 * 16 + 32 * 32
    layer = 2 * 32 + attention + 3 * 32 * 48
    assert work(model).weight_bytes(1) == FLOAT * (3 * layer + 32 + 61 * 32)


def test_what_is_not_looked_into_is_the_file(made: Made) -> None:
    """The witness is the size of the weights file: without the token table, and up to where tensors start."""
    model = made("llama", target="onnx")
    size = (model.folder / "model.onnx.data").stat().st_size
    assert 0 <= size - FLOAT * 61 * 32 - work(model).weight_bytes(1) < 64 * 40


@pytest.mark.parametrize("experts", [6, 32])
@pytest.mark.parametrize("target", ["onnx", "ort"])
def test_of_a_mixture_the_chosen_experts_are_read(made: Made, target: Target, experts: int) -> None:
    """Two of them for one token. Two tokens leave an expert alone where both do: (4/6)² of the time. 32 are one fused node."""
    mixture = work(made("moe", f"decoder.ffn.experts={experts}", target=target))
    expert = 3 * 32 * 16 * FLOAT
    one, two, all_of_them = (mixture.weight_bytes(batch) for batch in (1, 2, 10**6))
    assert all_of_them - one == 2 * (experts - 2) * expert  # of two layers
    assert all_of_them - two == round(2 * experts * (1 - 2 / experts) ** 2 * expert)


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
    assert (
        t5.cache_bytes(past=0, batch=1, source=7) - t5.cache_bytes(past=0, batch=1, source=5)
        == 2 * 2 * 2 * 4 * 6 * FLOAT
    )


def test_a_prompt_asks_the_head_for_one_token(made: Made) -> None:
    """FLOPs by hand: products of 5 tokens, their 15 pairs, and the head once."""
    products = 2 * 5 * 2 * (4 * 32 * 32 + 2 * 32 * 48)
    pairs = 2 * 2 * 15 * 2 * 32
    assert work(made("gpt2")).prompt_flops(5, batch=1) == products + pairs + 2 * 61 * 32


def test_the_product_of_the_limit_is_the_one_with_the_most_work(made: Made) -> None:
    assert work(made("gpt2")).product() == (32, 32)  # eight of attention outweigh two of 32 × 48 each way
    assert work(made("llama", "vocab_size=1000")).product() == (32, 48)  # not the head, which reads one row


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
    assert "1 thread;" in text
    assert "Weights in PyTorch are random." in " ".join(text.split())
    assert f"torch {found['versions']['torch']}" in " ".join(text.split())
    for limit in found["limits"]:
        assert limit["read_bytes_per_second"]["median"] >= limit["read_ordinary_bytes_per_second"]["median"] > 0
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


def test_without_torch_nothing_is_said_of_it(made: Made) -> None:
    text = run(made("gpt2"), "--context", "1", "--new", "1", "--no-torch")
    assert "after 1 token\n" in text
    assert "1 step each" in " ".join(text.split())
    assert "torch" not in text.lower()


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


# -------------------------------------------------------------------------------------------------------------------- soak


@pytest.fixture(scope="module")
def soaking() -> ModuleType:
    """benchmarks/soak.py"""
    file = Path(__file__).parents[1] / "benchmarks" / "soak.py"
    spec = importlib.util.spec_from_file_location("soak", file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["soak"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("name", "target"), [("llama", "ort"), ("llama", "onnx"), ("t5", "ort")])
def test_a_short_soak(made: Made, soaking: ModuleType, name: str, target: Target) -> None:
    """Random lengths, batches, stop tokens and cancellations: PyTorch's tokens, and no more memory at the end than before."""
    model = made(name, target=target)
    verdict = soaking.soak(model.folder, model.module, 60)
    assert not verdict.wrong
    assert verdict.tokens > 500
    assert verdict.ties < 5
    assert verdict.cancelled > 5
    assert max(verdict.resident[30:]) - max(verdict.resident[:30]) < 2**20
    assert max(verdict.held[30:]) - max(verdict.held[:30]) < 2**17


def test_the_soak_tells_a_wrong_token(made: Made, soaking: ModuleType) -> None:
    model, verdict = made("llama"), soaking.Verdict()
    right = model.greedy([3, 4], 4)
    wrong = [*right[:2], (right[2] + 1) % 61, right[3]]
    one = {"prompts": [[3, 4]], "source": None, "new": 4, "steps": 4, "stop": [], "made": [wrong]}
    soaking.judge(one, model.module, verdict, 7)
    assert verdict.wrong[0].startswith("generation 7, row 0, token 2")
    soaking.judge({**one, "made": [right[:3]]}, model.module, verdict, 8)
    assert verdict.wrong[-1] == "generation 8, row 0: 3 tokens of 4"


def test_the_soak_tells_a_leak(soaking: ModuleType) -> None:
    """A page a generation, among ups and downs: a hundred generations later that is a hundred pages."""
    leaking = [4096 * n + 10**6 * (n % 3) for n in range(300)]
    assert soaking.growth(leaking) == pytest.approx(100 * 4096, rel=0.1)
    assert soaking.growth([10**9] * 100 + [10**6 * (n % 3) for n in range(200)]) == 0


def test_what_is_held_is_what_was_not_given_back(soaking: ModuleType) -> None:
    before = soaking.held()
    kept = [bytes(1000) for _ in range(1000)]  # untouched pages and small blocks alike
    big = bytes(10**7)
    full = soaking.held()
    del kept, big
    assert full - before == pytest.approx(1000 * 1000 + 10**7, rel=0.02)
    assert abs(soaking.held() - before) < 10**5


def test_the_page_has_a_place_for_every_table() -> None:
    root = Path(__file__).parents[1]
    page = (root / "docs" / "performance.md").read_text()
    calls = [
        line
        for file in (root / "benchmarks").glob("*.py")
        for line in file.read_text().splitlines()
        if " publish(" in line
    ]
    names = {name for line in calls for name in re.findall(r'"(\w+)"', line)}
    assert names >= {"bench", "cuda", "genai", "optimum", "export", "emission", "soak"}
    assert not {name for name in names if page.count(f"<!-- {name} -->") != 1 or page.count(f"<!-- /{name} -->") != 1}


# ---------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("contexts", "new", "message"),
    [
        ((22,), None, "22 tokens and 7 after them are more than the context of gpt2: 24"),
        ((4, 16), 8, "16 tokens and 9 after them"),
        (None, 23, "a context of 24 has no room for 23 new tokens"),
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


@pytest.mark.parametrize(
    ("name", "options", "message", "remedy"),
    [
        (
            "gpt2",
            ["--batch=1000000000"],
            r"1,000,000,000 texts of 17 tokens and 7 new ones after each",
            "--batch at most ",
        ),
        ("bert", ["--batch=1000000000"], r"1,000,000,000 texts of 24 tokens", "--batch at most "),
        (
            "free",
            ["--context=1000000000000"],
            r"1 text of 1,000,000,000,000 tokens",
            "fewer tokens: --context or --new",
        ),
        ("free", ["--new=1000000000000"], r"1 text of 1,024 tokens and 1,000,000,000,001 new ones", "fewer tokens: "),
    ],
)
def test_what_memory_has_no_room_for(made: Made, name: str, options: list[str], message: str, remedy: str) -> None:
    """Nothing is measured, or allocated: the sentence says how many bytes it would take and how many there are."""
    model = made(name) if name != "free" else made("llama", "context_length=none")
    with pytest.raises(
        UsageError, match=rf"^To measure {message}.* takes \S+ .iB of memory or more, and .*iB are free\."
    ) as said:
        run(model, *options, "--no-torch")
    assert (said.value.remedy or "").startswith(remedy)


def test_what_is_said_to_fit_is_less_than_what_is_taken(made: Made) -> None:
    """The witness is the process itself: a larger batch takes at least as much more as is counted."""
    model = made("gpt2")
    small, large = (Plan((8,), batch, 2, 2) for batch in (1, 60_000))
    with Process("ours") as ours:
        ours.call("open", engine="folder", folder=str(model.folder), device="cpu", threads=1)
        peaks = []
        for plan in (small, large):
            ours.call("generate", context=8, batch=plan.batch, new=1 + WARM + plan.new)
            peaks.append(ours.call("peak"))
    counted = work(model).turn_bytes(large, 8) - work(model).turn_bytes(small, 8)
    assert 300e6 < counted <= peaks[1] - peaks[0] < 4 * counted


def test_an_engine_that_is_out_of_memory_says_so_in_a_sentence(made: Made) -> None:
    with Process("the probe") as probe:
        probe.call("open", engine="machine", device="cpu", threads=1)
        with pytest.raises(BenchError, match=r"^the probe: Unable to allocate \S+ .iB for an array"):
            probe.call("multiply", rows=10**13, inp=32, out=32)


def test_more_threads_than_cores(made: Made) -> None:
    with pytest.raises(UsageError, match="100000 threads are more"):
        run(made("gpt2"), "--threads", "100000")


# --------------------------------------------------------------------------------------------------------------- processes


def test_a_process_that_dies_says_why() -> None:
    with (
        Process("a machine", remedy="mend it") as process,
        pytest.raises(BenchError, match="a machine ended: KeyError: 'steam'"),
    ):
        process.call("open", engine="steam")


def test_what_an_engine_prints_is_no_answer(tmp_path: Path) -> None:

    from archspec.exporters.bench import remote

    program = tmp_path / "loud.py"
    program.write_text(
        "import remote\n"
        "class Loud:\n"
        "    def add(self, a, b):\n"
        "        print('adding', flush=True)\n"
        "        return a + b\n"
        "remote.serve({'loud': Loud})\n"
    )
    where = {"PYTHONPATH": str(Path(remote.__file__).parent)}
    with Process("loud", [sys.executable, str(program)], where) as process:
        process.call("open", engine="loud")
        assert process.call("add", a=2, b=3) == 5
        assert process.call("peak") > 2**20


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--no-torch", "--compile"], "--compile is of PyTorch, which --no-torch leaves out"),
        (["--json", "nowhere/x.json"], "cannot be written: there is no folder nowhere"),
        (["--json", "."], "is a folder"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_measured(
    made: Made, options: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archspec.exporters.bench.measure.measure", lambda *args: pytest.fail("measured"))
    done = CliRunner().invoke(command, [str(made("gpt2").folder), *options])
    assert isinstance(done.exception, UsageError)
    assert told in str(done.exception)


# ------------------------------------------------------------------------------------------------------------ what is wanted


@pytest.fixture(scope="module")
def aiming() -> ModuleType:
    """benchmarks/targets.py"""
    file = Path(__file__).parents[1] / "benchmarks" / "targets.py"
    spec = importlib.util.spec_from_file_location("targets", file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["targets"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_target_that_is_missed_says_so(aiming: ModuleType) -> None:
    two: Callable[[float], str] = "{:.2f}".format
    columns = [Column("what", ""), Column("engine", ""), Column("ratio", "", two), Column("limit", "", two)]
    table = Table("", columns)
    table.rows += [("decode", "a", 1.0, 2.0), None, ("decode", "b", 1.25, 1.2), ("decode", "ours", 1.5, 1.4)]
    ours = ("decode", "ours")
    wanted = [
        aiming.Target("at least", ours, "ratio", least=1.5),
        aiming.Target("more", ours, "ratio", least=1.51),
        aiming.Target("over the best", ours, "ratio", least=1.25, over=(("decode", "a"), ("decode", "b"))),
        aiming.Target("at most", ours, "ratio", most=1.6),
        aiming.Target("at most what stands beside", ours, "ratio", most="limit"),
    ]
    assert aiming.judged((table, wanted)).rows == [
        ("at least", "at least 1.50", "1.50", "met"),
        ("more", "at least 1.51", "1.50", "**missed**"),
        ("over the best", "at least 1.25", "1.20", "**missed**"),
        ("at most", "at most 1.60", "1.50", "met"),
        ("at most what stands beside", "at most 1.40", "1.50", "**missed**"),
    ]


def test_the_page_says_of_every_target_whether_it_is_met() -> None:
    """Read as a reader does: `at least 90 % | 68 % | **missed**`."""
    page = (Path(__file__).parents[1] / "docs" / "performance.md").read_text()
    rows = re.findall(r"\| at (least|most) ([\d.]+)(?: %)? \| ([\d.]+)(?: %)? \| (\S+) \|", page)
    assert len(rows) == len(re.findall(r"\| at (?:least|most) [0-9]", page)) > 10
    for how, bound, found, said in rows:
        met = float(found) >= float(bound) if how == "least" else float(found) <= float(bound)
        assert said == ("met" if met else "**missed**"), (how, bound, found)
