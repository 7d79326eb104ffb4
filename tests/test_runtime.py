"""An exported folder at work: the same tokens as PyTorch, and the runtime's own laws."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from exported import Exported, exported, rows
from tiny import DECODERS, SEQ2SEQ, text

from archspec.api import load
from archspec.cli.run import command
from archspec.errors import UsageError
from archspec.exporters.onnx.emit import Target
from archspec.exporters.runtime import generation
from archspec.exporters.runtime import session as session_module
from archspec.exporters.runtime.decode import Decoding
from archspec.exporters.runtime.device import RunError, open_session
from archspec.exporters.runtime.generation import ContextError
from archspec.exporters.runtime.replay import replayable
from archspec.exporters.runtime.session import Runtime, padded
from archspec.exporters.weights.special import generation_config

PROMPTS = [[5, 6, 7, 8, 9], [3], [11, 12, 13]]
SOURCES = [[1, 2, 3], [4, 5, 6, 7, 8, 9, 10], [9]]

Model = Callable[..., Exported]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """name, overrides -> that tiny model, exported once a session."""
    made: dict[tuple[str, ...], Exported] = {}

    def get(name: str, *overrides: str, target: Target = "onnx") -> Exported:
        key = (target, name, *overrides)
        if key not in made:
            made[key] = exported(text(name), tmp_path_factory.mktemp("export") / name, *overrides, target=target)
        return made[key]

    return get


# ------------------------------------------------------------------------------------------------- the same as PyTorch


@pytest.mark.parametrize("target", ["onnx", "ort"])
@pytest.mark.parametrize("name", DECODERS)
def test_greedy_is_pytorchs_without_a_cache(model: Model, name: str, target: Target) -> None:
    tiny = model(name, target=target)
    got = rows(Runtime.load(tiny.folder, "cpu").generate(PROMPTS, max_new_tokens=12))
    assert got == [tiny.greedy(p, 12, prefix=len(p) if name == "prefix" else None) for p in PROMPTS]


@pytest.mark.parametrize("target", ["onnx", "ort"])
@pytest.mark.parametrize("name", SEQ2SEQ)
def test_greedy_beside_an_encoder(model: Model, name: str, target: Target) -> None:
    tiny = model(name, target=target)
    runtime = Runtime.load(tiny.folder, "cpu")
    got = rows(runtime.generate(source=SOURCES, decoder_start=2, max_new_tokens=10))
    assert got == [tiny.greedy([2], 10, source=s) for s in SOURCES]
    begun = rows(runtime.generate(PROMPTS, source=SOURCES, max_new_tokens=6))
    assert begun == [tiny.greedy(p, 6, source=s) for p, s in zip(PROMPTS, SOURCES, strict=True)]


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "pooler", "classifier"])
def test_whole_texts(model: Model, name: str) -> None:
    tiny = model(name)
    got = Runtime.load(tiny.folder, "cpu").forward(PROMPTS)
    for row, prompt in zip(got, PROMPTS, strict=True):
        expected = tiny.logits(prompt)
        np.testing.assert_allclose(row[: len(expected)] if expected.ndim > 1 else row, expected, atol=1e-4)


def test_whole_texts_beside_an_encoder(model: Model) -> None:
    tiny = model("seq2seq")
    got = Runtime.load(tiny.folder, "cpu").forward([[5, 6, 7]], source=[[1, 2, 3, 4]])
    np.testing.assert_allclose(got[0], tiny.logits([5, 6, 7], [1, 2, 3, 4]), atol=1e-4)


def test_a_decoders_tokens_are_of_the_first_type(model: Model) -> None:
    tiny = model("gpt2", "embedding.token_types=2")
    runtime = Runtime.load(tiny.folder, "cpu")
    assert rows(runtime.generate(PROMPTS, max_new_tokens=6)) == [tiny.greedy(p, 6) for p in PROMPTS]
    np.testing.assert_allclose(runtime.forward(PROMPTS[:1])[0], tiny.logits(PROMPTS[0]), atol=1e-4)


@pytest.mark.parametrize("head", ["{kind: classifier, labels: 3, pool: mean}", "{kind: pooler}"])
def test_one_vector_a_text_beside_an_encoder(model: Model, head: str) -> None:
    tiny = model("seq2seq", f"head={head}", "embedding.token_types=2")
    runtime = Runtime.load(tiny.folder, "cpu")
    assert not runtime.generates
    got = runtime.forward(PROMPTS, source=SOURCES)
    for row, prompt, source in zip(got, PROMPTS, SOURCES, strict=True):
        np.testing.assert_allclose(row, tiny.logits(prompt, source), atol=1e-4)


def test_caches_that_memory_has_no_room_for(model: Model) -> None:
    """A spec without a context lets anything be asked for."""
    free = model("llama", "context_length=none", target="ort")
    arguments = [str(free.folder), "--device=cpu", "--ids=5,6,7", f"-n{10**13}"]
    done = CliRunner().invoke(command, arguments)
    assert isinstance(done.exception, RunError)
    assert str(done.exception).startswith("Caches with room for 1 × 10,000,000,000,003 tokens do not fit into memory: ")
    assert "(-n)" in (done.exception.remedy or "")


def test_what_was_made_before_the_context_ended_is_told(model: Model) -> None:
    tiny = model("gpt2")
    done = CliRunner().invoke(command, [str(tiny.folder), "--device=cpu", "--ids=5,6,7", "-n200", "--json", "--check"])
    assert isinstance(done.exception, ContextError)
    assert json.loads(done.output) == {"ids": tiny.greedy([5, 6, 7], 22), "finish": "length"}


@pytest.mark.parametrize("target", ["onnx", "ort"])
def test_several_ids_are_a_batch(model: Model, target: Target) -> None:
    tiny = model("llama", target=target)
    ids = [f"--ids={','.join(map(str, p))}" for p in PROMPTS]
    done = CliRunner().invoke(command, [str(tiny.folder), "--device=cpu", *ids, "-n4"], catch_exceptions=False)
    assert [[int(t) for t in line.split(",")] for line in done.output.splitlines()] == [
        tiny.greedy(p, 4) for p in PROMPTS
    ]
    told = CliRunner().invoke(
        command, [str(tiny.folder), "--device=cpu", *ids, "-n4", "--json"], catch_exceptions=False
    )
    assert json.loads(told.output) == [{"ids": tiny.greedy(p, 4), "finish": "length"} for p in PROMPTS]


@pytest.mark.parametrize("as_json", [[], ["--json"]])
@pytest.mark.parametrize("prompts", [PROMPTS, PROMPTS[:1]])
def test_the_tokens_of_a_batch_are_counted_and_timed(
    model: Model, prompts: list[list[int]], as_json: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that goes on by a second each time it is looked at: once before the first token, and once a step."""
    monkeypatch.setattr("archspec.exporters.runtime.pace.time", SimpleNamespace(perf_counter=count(1.0).__next__))
    ids = [f"--ids={','.join(map(str, p))}" for p in prompts]
    done = CliRunner().invoke(command, [str(model("llama").folder), "--device=cpu", *ids, "-n4", "--stats", *as_json])
    read, rows = sum(map(len, prompts)), len(prompts)
    told = f"tokens: {read} in the prompt, {4 * rows} made, the first after 1000 ms, then {rows}.0 a second"
    assert done.stderr.splitlines()[1:] == [told]


def test_a_source_is_counted_with_the_prompt(model: Model) -> None:
    arguments = ["--device=cpu", "--ids=5,6", "--source=1,2,3", "-n1", "--stats"]
    done = CliRunner().invoke(command, [str(model("seq2seq").folder), *arguments])
    assert "tokens: 5 in the prompt, 1 made, " in done.stderr


def test_a_batch_that_one_row_breaks_off_says_which_rows_were_at_an_end(model: Model) -> None:
    """The long row comes to the context's end, and the short one was going on."""
    tiny = model("gpt2")
    long, short = ",".join(map(str, range(20))), "3"
    arguments = [str(tiny.folder), "--device=cpu", f"--ids={long}", f"--ids={short}", "-n10", "--json"]
    done = CliRunner().invoke(command, arguments)
    assert isinstance(done.exception, ContextError)
    assert [row["finish"] for row in json.loads(done.output)] == ["length", None]
    assert [len(row["ids"]) for row in json.loads(done.output)] == [5, 5]


@pytest.mark.parametrize(
    "arguments",
    [["--ids=1", "--top-k=5"], ["--ids=1", "--seed=3", "-n2"], ["--ids=1", "--system=x"], ["--ids=1,,2"], ["--ids="]],
)
def test_what_would_do_nothing_is_refused(model: Model, arguments: list[str]) -> None:
    done = CliRunner().invoke(command, [str(model("llama").folder), "--device=cpu", *arguments])
    assert isinstance(done.exception, UsageError)


def test_text_for_ids_is_told_from_them(model: Model) -> None:
    with pytest.raises(UsageError, match="is text"):
        Runtime.load(model("llama").folder, "cpu").generate(["hello"], max_new_tokens=1)  # type: ignore[list-item]


def test_a_poolers_vector_beside_an_encoder_is_told(model: Model) -> None:
    tiny = model("seq2seq", "head={kind: pooler}", "embedding.token_types=2")
    done = CliRunner().invoke(command, [str(tiny.folder), "--device=cpu", "--ids=5,6", "--source=1,2,3", "--json"])
    np.testing.assert_allclose(json.loads(done.output)["vector"], tiny.logits([5, 6], [1, 2, 3]), atol=1e-4)


def test_token_types_are_read(model: Model) -> None:
    tiny = model("bert")
    types = [[0, 0, 1, 1, 1]]
    got = Runtime.load(tiny.folder, "cpu").forward(PROMPTS[:1], token_types=types)
    with torch.no_grad():
        expected = tiny.module(torch.tensor(PROMPTS[:1]), token_types=torch.tensor(types)).numpy()
    np.testing.assert_allclose(got, expected, atol=1e-4)
    assert np.abs(got - Runtime.load(tiny.folder, "cpu").forward(PROMPTS[:1])).max() > 1e-2


# ------------------------------------------------------------------------------------------------------------- caches


@pytest.mark.parametrize("target", ["onnx", "ort"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "chunk", "mla", "sinks"])
def test_a_long_prompt_is_read_in_pieces(
    model: Model, name: str, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "PIECE", 3)
    tiny = model(name, target=target)
    got = rows(Runtime.load(tiny.folder, "cpu").generate(PROMPTS, max_new_tokens=5))
    assert got == [tiny.greedy(p, 5) for p in PROMPTS]


def test_a_buffer_stays_where_it_is(model: Model) -> None:
    """A call writes into the memory that it reads, and the windows' part of it is no longer than they need."""
    tiny = model("llama", "decoder.attention.head_dim=16", "context_length=64", target="ort")
    state = Decoding(open_session(tiny.folder / "model.onnx", "cpu")[0], "cpu", 2, room=30)
    places = [buffer.value.data_ptr() for buffer in state._buffers]
    assert len(places) == 6
    assert set(state.held.values()) == {5, 30}  # a window of 4 and a quarter of it
    for length in (9, *[1] * 21):
        state.step(np.ones((2, length), np.int64), np.ones((2, length), np.int64))
    assert [buffer.value.data_ptr() for buffer in state._buffers] == places


@pytest.mark.parametrize("room", [1, 4, 7])
def test_a_buffer_that_is_full_becomes_longer(model: Model, room: int) -> None:
    tiny = model("gpt2", target="ort")
    state = Decoding(open_session(tiny.folder / "model.onnx", "cpu")[0], "cpu", 1, room=room)
    tokens = list(range(2, 22))
    ids = np.array([tokens])
    for at, length in ((0, 5), *((i, 1) for i in range(5, 20))):
        logits = state.step(ids[:, at : at + length], np.ones((1, length), np.int64))
    np.testing.assert_allclose(logits[0, -1], tiny.logits(tokens)[-1], atol=1e-4)


@pytest.mark.parametrize("name", ["gpt2", "llama", "sinks"])
def test_steps_of_one_shape_are_the_same_steps(model: Model, name: str) -> None:
    """What a CUDA graph would record, without the recording: a mask as wide as the buffers, places that stay."""
    tiny = model(name, target="ort")
    session = open_session(tiny.folder / "model.onnx", "cpu")[0]
    assert replayable(session)
    states = [Decoding(session, "cpu", 2, room=room, recorded=on) for room, on in ((20, False), (20, True), (9, True))]
    rng = np.random.default_rng(0)
    for length in (5, *[1] * 12):
        ids, mask = rng.integers(61, size=(2, length)), np.ones((2, length), np.int64)
        if length > 1:
            mask[1, :2] = 0
        plain, *recorded = (state.step(ids, mask).copy() for state in states)
        for logits in recorded:
            np.testing.assert_allclose(logits, plain, atol=1e-5)


def test_windows_alone_are_recorded_beyond_their_buffers(model: Model) -> None:
    tiny = model("llama", "decoder.layers=[{repeat: 2, attention: {window: 4}}]", target="ort")
    state = Decoding(open_session(tiny.folder / "model.onnx", "cpu")[0], "cpu", 1, room=5, recorded=True)
    tokens = list(range(3, 23))
    for at, length in ((0, 3), *((i, 1) for i in range(3, 20))):
        logits = state.step(np.array([tokens[at : at + length]]), np.ones((1, length), np.int64))
    np.testing.assert_allclose(logits[0, -1], tiny.logits(tokens)[-1], atol=1e-4)


def test_what_cannot_be_recorded_is_refused(model: Model) -> None:
    assert not replayable(open_session(model("gpt2").folder / "model.onnx", "cpu")[0])
    assert not replayable(open_session(model("alibi", target="ort").folder / "model.onnx", "cpu")[0])


@pytest.mark.parametrize("target", ["onnx", "ort"])
def test_a_context_that_slides_goes_on(model: Model, target: Target) -> None:
    """At the end of 24 tokens the last 12 are read anew, for each row."""
    tiny = model("gpt2", target=target)
    runtime = Runtime.load(tiny.folder, "cpu")
    prompts = [list(range(20)), [4, 5]]
    got = rows(runtime.generate(prompts, max_new_tokens=30, slide=True))
    texts = [list(p) for p in prompts]
    for _ in range(30):
        texts = [t[-12:] if len(t) > 24 else t for t in texts]
        for t in texts:
            t.append(int(tiny.logits(t)[-1].argmax()))
    assert [t[-8:] for t in texts] == [row[-8:] for row in got]
    assert list(map(len, got)) == [30, 30]
    with pytest.raises(UsageError, match="has no end"):
        runtime.generate(prompts, slide=True)


@pytest.mark.parametrize("target", ["onnx", "ort"])
def test_a_prefix_slides_out_of_the_context(model: Model, target: Target) -> None:
    """What is left of a prompt is seen from both sides: of 20 tokens 8 after the first slide, later none; of 2 none."""
    tiny = model("prefix", target=target)
    prompts = [list(range(20)), [4, 5]]
    got = rows(Runtime.load(tiny.folder, "cpu").generate(prompts, max_new_tokens=30, slide=True))
    for prompt, made in zip(prompts, got, strict=True):
        text, prefix = list(prompt), len(prompt)
        for _ in range(30):
            if len(text) > 24:
                prefix, text = max(0, prefix - len(text) + 12), text[-12:]
            text.append(int(tiny.logits(text, prefix=prefix)[-1].argmax()))
        assert made[-len(text) :] == text[-len(made) :]


# --------------------------------------------------------------------------------------------------------- generation


def test_several_prompts_are_as_each_alone(model: Model) -> None:
    runtime = Runtime.load(model("llama").folder, "cpu")
    how = {"max_new_tokens": 8, "temperature": 0.9, "top_k": 20, "top_p": 0.9, "seed": 5}
    together = rows(runtime.generate(PROMPTS, **how))
    assert together[0] == rows(runtime.generate(PROMPTS[:1], **how))[0]
    assert together == rows(runtime.generate(PROMPTS, **how))
    assert together != rows(runtime.generate(PROMPTS, **{**how, "seed": 6}))


def test_one_candidate_is_greedy(model: Model) -> None:
    runtime = Runtime.load(model("llama").folder, "cpu")
    greedy = rows(runtime.generate(PROMPTS, max_new_tokens=8))
    assert rows(runtime.generate(PROMPTS, max_new_tokens=8, temperature=2.0, top_k=1)) == greedy


def test_a_row_ends_at_its_stop_token_and_the_others_go_on(model: Model) -> None:
    runtime = Runtime.load(model("llama").folder, "cpu")
    free = rows(runtime.generate(PROMPTS, max_new_tokens=10))
    stop = free[0][2]
    cut = [row[: row.index(stop) + 1] if stop in row else row for row in free]
    assert min(map(len, cut)) < max(map(len, cut))  # else this tests nothing
    steps = list(runtime.generate(PROMPTS, max_new_tokens=10, stop={stop}))
    assert rows(steps) == cut
    assert steps[-1].ended == tuple("stop" if stop in row else "length" for row in free)
    assert len(steps) == max(map(len, cut))


def test_a_row_that_has_ended_takes_no_more_of_the_context(model: Model) -> None:
    """The long row stops at once; the short one may go on to its own end of the context, past the long row's."""
    tiny = model("gpt2")
    runtime = Runtime.load(tiny.folder, "cpu")
    long = list(range(20))
    stop = tiny.greedy(long, 1)[0]
    short, expected = next(([first], tokens) for first in range(61) if stop not in (tokens := tiny.greedy([first], 24)))
    assert rows(runtime.generate([long, short], stop=[stop]))[1] == expected


def test_to_the_end_of_the_context(model: Model) -> None:
    runtime = Runtime.load(model("gpt2").folder, "cpu")
    steps = list(runtime.generate([[1, 2, 3, 4]]))
    assert len(steps) == 24 - 4 + 1  # the last token need not be read again
    assert steps[-1].ended == ("length",)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_past_the_end_of_the_context(model: Model, name: str) -> None:
    runtime = Runtime.load(model(name).folder, "cpu")
    steps = runtime.generate([[1] * 20], max_new_tokens=100)
    got = [next(steps) for _ in range(5)]
    assert [step.ended for step in got] == [(None,)] * 4 + [("length",)]
    with pytest.raises(ContextError, match="context of 24 tokens is full after 5 new ones"):
        next(steps)
    assert len(rows(got)[0]) == 5
    with pytest.raises(ContextError, match="row 1 of the prompts has 25 tokens and the context holds 24"):
        runtime.generate([[1], [1] * 25], max_new_tokens=1)


def refused(call: Callable[[], object]) -> str:
    """The remedy of a text that is longer than the context."""
    with pytest.raises(ContextError) as caught:
        call()
    return caught.value.remedy or ""


def test_what_would_do_for_a_text_over_the_context(model: Model, tmp_path: Path) -> None:
    """A longer context is named where an export can have one: not for trained weights with a table of positions."""
    long = [[1] * 25]
    table, turned = (Runtime.load(model(name).folder, "cpu") for name in ("gpt2", "llama"))
    assert refused(lambda: table.generate(long, max_new_tokens=1)) == "give at most 24 tokens"
    for call in (lambda: turned.generate(long, max_new_tokens=1), lambda: turned.forward(long)):
        remedy = refused(call)
        assert remedy.startswith("give at most 24 tokens, or export the model again with a longer context, if ")
    spec = tmp_path / "gpt2.yaml"
    spec.write_text(text("gpt2"))
    load(spec).export(tmp_path / "fresh", verify=False)  # fresh weights are of any length
    fresh = Runtime.load(tmp_path / "fresh", "cpu")
    _, _, said = refused(lambda: fresh.generate(long, max_new_tokens=1)).partition(" with a longer context: --set ")
    load(spec, [said]).export(tmp_path / "longer", verify=False)
    assert len(list(Runtime.load(tmp_path / "longer", "cpu").generate(long, max_new_tokens=1))) == 1


def test_what_would_do_for_a_source_over_the_context(model: Model) -> None:
    """Its own stack's positions count."""
    t5 = Runtime.load(model("t5").folder, "cpu")
    long = [[1] * ((t5.spec.context_length or 0) + 1)]
    assert "longer context" in refused(lambda: t5.generate(source=long, decoder_start=2, max_new_tokens=1))
    table = Runtime.load(model("seq2seq", "embedding.position=learned").folder, "cpu")
    long = [[1] * ((table.spec.context_length or 0) + 1)]
    assert "longer" not in refused(lambda: table.generate(source=long, decoder_start=2, max_new_tokens=1))


@pytest.mark.parametrize("most", [24, 25])
def test_a_shorter_prompt_is_named_where_one_would_do(model: Model, most: int) -> None:
    runtime = Runtime.load(model("gpt2").folder, "cpu")
    remedy = refused(lambda: list(runtime.generate([[1] * 20], max_new_tokens=most)))
    assert ("shorten the prompt to 1 token," in remedy) == (most == 24)
    assert "ask for at most 5 (-n)" in remedy
    assert "--slide" in remedy
    assert len(list(runtime.generate([[1]], max_new_tokens=24))) == 24


def test_by_default_an_answer_ends_with_the_context_whatever_it_begins_with(model: Model, tmp_path: Path) -> None:
    """24 tokens: one to start from, one that is forced, and 23 made, of which the last is not read."""
    own = copytree(model("seq2seq").folder, tmp_path / "own")
    (own / "generation_config.json").write_text('{"decoder_start_token_id": 2, "forced_bos_token_id": 3}')
    done = CliRunner().invoke(command, [str(own), "--device=cpu", "--source=1,2", "--json"], catch_exceptions=False)
    assert len(json.loads(done.output)["ids"]) == 23


def test_a_folder_says_once_where_answers_begin_and_end(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []

    def reading(folder: Path) -> dict[str, Any]:
        read.append(folder)
        return generation_config(folder)

    monkeypatch.setattr("archspec.exporters.runtime.text.generation_config", reading)
    own = copytree(model("seq2seq").folder, tmp_path / "own")
    (own / "generation_config.json").write_text('{"eos_token_id": 1, "decoder_start_token_id": 2}')
    runtime = Runtime.load(own, "cpu")
    times = []
    for _ in range(3):
        list(runtime.generate(source=SOURCES, max_new_tokens=2))
        times.append(len(read))
    assert times[0] > 0
    assert times == times[:1] * 3


def test_a_cancelled_generation_leaves_the_runtime_as_it_was(model: Model) -> None:
    runtime = Runtime.load(model("llama").folder, "cpu")
    expected = rows(runtime.generate(PROMPTS, max_new_tokens=8))
    for taken in range(4):
        steps = runtime.generate([[40, 41]], max_new_tokens=20, temperature=1.0)
        for _ in range(taken):
            next(steps)
        steps.close()  # type: ignore[attr-defined]
        assert rows(runtime.generate(PROMPTS, max_new_tokens=8)) == expected


def test_generations_in_flight_do_not_disturb_each_other(model: Model) -> None:
    runtime = Runtime.load(model("llama").folder, "cpu")
    alone = [rows(runtime.generate([p], max_new_tokens=6))[0] for p in PROMPTS]
    together = zip(*(runtime.generate([p], max_new_tokens=6) for p in PROMPTS), strict=True)
    assert [list(t) for t in zip(*([s.tokens[0] for s in each] for each in together), strict=True)] == alone


def test_the_encoder_runs_once(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime.load(model("seq2seq").folder, "cpu")
    runs = []
    run = session_module.run_bound
    monkeypatch.setattr(session_module, "run_bound", lambda *given: runs.append(1) or run(*given))
    assert len(list(runtime.generate(source=SOURCES, decoder_start=2, max_new_tokens=5))) == 5
    assert len(runs) == 1


def test_a_windowed_cache_keeps_what_later_queries_see(model: Model) -> None:
    """Layers with a window of 4 hold fewer than 8 columns at any time, the others all of them."""
    tiny = model("llama")
    state = Decoding(open_session(tiny.folder / "model.onnx", "cpu")[0], "cpu", 1)
    most: dict[str, int] = {}
    for token in range(20):
        state.step(np.array([[token]]), np.ones((1, 1), np.int64))
        most = {name: max(rows, most.get(name, 0)) for name, rows in state.held.items()}
    assert {n: most[f"past.{n}.key"] for n in range(3)} == {0: 7, 1: 7, 2: 20}


def test_threads_do_not_change_the_tokens(model: Model) -> None:
    folder = model("gpt2").folder
    one, two = (Runtime.load(folder, "cpu", threads=n) for n in (1, 2))
    assert rows(one.generate(PROMPTS, max_new_tokens=5)) == rows(two.generate(PROMPTS, max_new_tokens=5))


# ----------------------------------------------------------------------------------------------- masks and embeddings


def test_filled_masks(model: Model) -> None:
    tiny = model("bert")
    got = Runtime.load(tiny.folder, "cpu").fill_mask([[5, 60, 7], [60, 8, 9, 60]], mask_token_id=60, top=3)
    assert [(f.row, f.column) for f in got] == [(0, 1), (1, 0), (1, 3)]
    for filled, ids in zip(got, ([5, 60, 7], [60, 8, 9, 60], [60, 8, 9, 60]), strict=True):
        chances = torch.from_numpy(tiny.logits(ids)[filled.column]).softmax(-1)
        best = chances.topk(3)
        assert filled.tokens == tuple(best.indices.tolist())
        np.testing.assert_allclose(filled.probabilities, best.values.numpy(), atol=1e-5)


def test_the_likeliest_tokens_of_each_position_are_told(model: Model) -> None:
    tiny = model("bert")
    asked = [str(tiny.folder), "--device=cpu", "--ids=5,60,7"]
    best = torch.from_numpy(tiny.logits([5, 60, 7])).softmax(-1).topk(5)
    told = json.loads(CliRunner().invoke(command, [*asked, "--json"]).output)
    assert [position["ids"] for position in told] == best.indices.tolist()
    np.testing.assert_allclose([position["probabilities"] for position in told], best.values.numpy(), atol=1e-5)
    lines = CliRunner().invoke(command, asked).output.splitlines()
    assert [[int(part.split(":")[0]) for part in line.split("  ")] for line in lines] == best.indices.tolist()


@pytest.mark.parametrize("pooling", ["mean", "first", "last"])
def test_embeddings_are_pooled_hidden_states(model: Model, pooling: str) -> None:
    tiny = model("bert", "head=none")
    runtime = Runtime.load(tiny.folder, "cpu")
    got = runtime.embed(PROMPTS, pooling, normalize=False)  # type: ignore[arg-type]
    pool = {"mean": lambda h: h.mean(0), "first": lambda h: h[0], "last": lambda h: h[-1]}[pooling]
    expected = np.stack([pool(tiny.logits(p)) for p in PROMPTS])
    np.testing.assert_allclose(got, expected, atol=1e-4)
    unit = runtime.embed(PROMPTS, pooling)  # type: ignore[arg-type]
    np.testing.assert_allclose(unit, got / np.linalg.norm(got, axis=1, keepdims=True), atol=1e-6)


# ---------------------------------------------------------------------------------------------------------- bad calls


@pytest.mark.parametrize(
    ("name", "call", "said"),
    [
        ("gpt2", lambda r: r.generate(), "no prompts"),
        ("gpt2", lambda r: r.generate([]), "no prompts"),
        ("gpt2", lambda r: r.generate([[1], []]), "row 1 of the prompts is empty"),
        ("gpt2", lambda r: r.generate([[61]]), r"token 61\n  = tokens are 0 to 60"),
        ("gpt2", lambda r: r.generate([[-1]]), "token -1"),
        ("gpt2", lambda r: r.generate([[1]], max_new_tokens=0), "max_new_tokens must be at least 1"),
        ("gpt2", lambda r: r.generate([[1]], top_p=2.0), "top_p"),
        ("gpt2", lambda r: r.generate([[1]], source=[[1]]), "no encoder"),
        ("gpt2", lambda r: r.forward([[1]], token_types=[[1]]), "no token types"),
        ("gpt2", lambda r: r.forward([[1]], source=[[1]]), "no encoder"),
        ("gpt2", lambda r: r.fill_mask([[1]], 1), "does not fill masks"),
        ("gpt2", lambda r: r.embed([[1]]), "gives no vectors"),
        ("bert", lambda r: r.generate([[1]]), "does not generate"),
        ("bert", lambda r: r.fill_mask([[1]], 2), "no text holds the mask token 2"),
        ("bert", lambda r: r.fill_mask([[1]], 1, top=62), "1 to 61 tokens"),
        ("bert", lambda r: r.forward([[1, 2]], token_types=[[1]]), "token types"),
        ("seq2seq", lambda r: r.generate([[1]]), "reads a source"),
        ("seq2seq", lambda r: r.forward([[1]]), "reads a source"),
        ("seq2seq", lambda r: r.generate(source=[[1]]), "which token the decoder starts from"),
        ("seq2seq", lambda r: r.generate([[1]], source=[[1], [2]]), "2 rows of source and 1 prompts"),
        ("seq2seq", lambda r: r.generate([[1]], source=[[1]], decoder_start=1), "give one of them"),
        ("seq2seq", lambda r: r.forward([[1]], source=[[1], [2]]), "2 rows of source and 1 texts"),
    ],
)
def test_calls_that_do_not_fit_the_model(model: Model, name: str, call: Callable[[Runtime], object], said: str) -> None:
    runtime = Runtime.load(model(name).folder, "cpu")
    with pytest.raises(UsageError, match=said):
        call(runtime)


def test_without_a_context_length_the_number_of_tokens_must_be_said(tmp_path: Path) -> None:
    endless = exported(text("llama").replace("context_length: 24\n", ""), tmp_path / "endless")
    runtime = Runtime.load(endless.folder, "cpu")
    with pytest.raises(UsageError, match="states no context_length"):
        runtime.generate([[1]])
    assert rows(runtime.generate([[1]], max_new_tokens=40)) == [endless.greedy([1], 40)]


def test_padding() -> None:
    ids, mask = padded([[1, 2], [3]], left=True)
    assert (ids.tolist(), mask.tolist()) == ([[1, 2], [0, 3]], [[1, 1], [0, 1]])
    ids, mask = padded([[1, 2], [3]])
    assert (ids.tolist(), mask.tolist()) == ([[1, 2], [3, 0]], [[1, 1], [1, 0]])
