"""`archspec run`: each option does something or is refused, and a batch is a batch for every head."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from exported import Exported, exported
from test_runtime_text import folder as with_tokenizer
from tiny import text

from archspec.cli.run import GOES_WITH, command
from archspec.errors import UsageError

#: Name -> a tiny spec, and what is set over it.
MODELS = {
    "decoder": ("gpt2",),
    "masks": ("bert",),
    "vectors": ("bert", "head=none"),
    "pooler": ("bert", "head={kind: pooler}"),
    "labels": ("bert", "head={kind: classifier, labels: 3, pool: mean}"),
    "labels of tokens": ("bert", "head={kind: classifier, labels: 3, pool: tokens}"),
    "vectors beside": ("seq2seq", "head=none"),
    "labels beside": ("seq2seq", "head={kind: classifier, labels: 3, pool: mean}"),
}
Made = Callable[[str], Exported]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    @cache
    def get(name: str) -> Exported:
        spec, *overrides = MODELS[name]
        out = exported(text(spec), tmp_path_factory.mktemp("options") / "out", "vocab_size=330", *overrides)
        with_tokenizer(out.folder)
        return out

    return get


def ran(model: Exported, *arguments: str) -> Result:
    return CliRunner().invoke(command, [str(model.folder), "--device=cpu", *arguments])


#: Every option that goes with one thing, as it might be given.
GIVEN = {
    "max_new_tokens": ["-n3"], "slide": ["--slide"], "temperature": ["--temperature=0.7"],
    "top_k": ["--top-k=3", "--temperature=1"], "top_p": ["--top-p=0.5", "--temperature=1"],
    "seed": ["--seed=3", "--temperature=1"], "start": ["--start=4"], "cuda_graph": ["--cuda-graph"],
    "pooling": ["--pooling=first"],
}  # fmt: skip
IDS = ["--ids=1,2"]
#: Ways of asking, and what they ask for.
WAYS = [
    ("decoder", ["Hello"], "text"),
    ("decoder", ["--chat=Hello"], "text"),
    ("decoder", IDS, "text"),
    ("masks", IDS, "masked tokens"),
    ("masks", ["--fill=Hello"], "masked tokens"),
    ("vectors", IDS, "vectors"),
    ("vectors", ["--embed=Hello"], "vectors"),
    ("pooler", IDS, "vectors"),
    ("labels", IDS, "labels"),
    ("labels", ["--classify=Hello"], "labels"),
    ("vectors beside", [*IDS, "--source=1,2"], "vectors"),
    ("labels beside", [*IDS, "--source=1,2"], "labels"),
]  # fmt: skip


IDLE = [(*way[:2], option) for way in WAYS for option, goes_with in GOES_WITH.items() if goes_with != way[2]]


@pytest.mark.parametrize(("name", "asked", "option"), IDLE)
def test_an_option_that_does_nothing_is_refused(made: Made, name: str, asked: list[str], option: str) -> None:
    done = ran(made(name), *asked, *GIVEN[option])
    assert isinstance(done.exception, UsageError)
    said = GIVEN[option][0].partition("=")[0].replace("-n3", "--max-new-tokens")
    assert f"{said} would do nothing: " in done.exception.message.replace(", --temperature", "").replace(
        "--temperature, ", ""
    )
    assert done.stdout == ""


def test_several_idle_options_are_told_at_once(made: Made) -> None:
    given = ["--ids=1,2", "--temperature=0.7", "--top-k=3", "--seed=3", "--slide", "--start=4"]
    error = ran(made("vectors"), *given).exception
    assert isinstance(error, UsageError)
    assert error.message == (
        "--start, --slide, --temperature, --top-k, --seed would do nothing: --ids asks for vectors here"
    )
    assert "text takes them" in (error.remedy or "")
    assert isinstance(ran(made("vectors"), "--ids=1,2", "--temperature=0").exception, UsageError)


@pytest.mark.parametrize("name", ["vectors", "labels", "masks", "pooler"])
def test_a_source_for_a_model_without_an_encoder_for_it(made: Made, name: str) -> None:
    done = ran(made(name), "--ids=1,2", "--source=1,2")
    assert isinstance(done.exception, UsageError)
    assert "no encoder to read a source" in done.exception.message


@pytest.mark.parametrize("name", ["vectors beside", "labels beside"])
def test_a_source_is_demanded(made: Made, name: str) -> None:
    done = ran(made(name), "--ids=1,2")
    assert isinstance(done.exception, UsageError)
    assert "reads a source" in done.exception.message


def test_a_start_and_a_prompt_are_two_beginnings(made: Made) -> None:
    for asked in (["Hello"], ["--ids=1,2"]):
        done = ran(made("decoder"), *asked, "--start=4")
        assert isinstance(done.exception, UsageError)
        assert "give one of them" in str(done.exception)


def test_pooling_where_a_pooler_does_it(made: Made) -> None:
    done = ran(made("pooler"), "--ids=1,2", "--pooling=first")
    assert isinstance(done.exception, UsageError)
    assert "has a pooler" in done.exception.message


# ------------------------------------------------------------------------------------------------------------- batches


TEXTS = [[5, 6, 7, 8], [3], [11, 12]]
SOURCES = [[1, 2, 3], [9], [4, 5]]


def expected(name: str, model: Exported, ids: list[int], source: list[int] | None) -> Any:
    """By PyTorch, each text alone: what JSON should hold, probabilities of all labels or a vector."""
    given = torch.from_numpy(model.logits(ids, source))
    if name == "vectors":
        return torch.nn.functional.normalize(given.mean(0), dim=0)
    if name == "pooler":
        return torch.nn.functional.normalize(given, dim=0)
    return given.softmax(-1) if name.startswith(("labels", "masks")) else given


@pytest.mark.parametrize("name", [name for name in MODELS if name != "decoder"])
def test_several_ids_are_a_batch_for_every_head(made: Made, name: str) -> None:
    model, beside = made(name), name.endswith("beside")
    sources = SOURCES if beside else [None] * len(TEXTS)
    asked = [f"--ids={','.join(map(str, ids))}" for ids in TEXTS]
    asked += [f"--source={','.join(map(str, source))}" for source in SOURCES if beside]
    done = ran(model, *asked, "--json")
    assert done.exception is None, done.exception
    told = json.loads(done.stdout)
    assert len(told) == len(TEXTS)
    for result, ids, source in zip(told, TEXTS, sources, strict=True):
        want = expected(name, model, ids, source)
        if name == "masks":
            best = want.topk(5)
            assert [place["ids"] for place in result] == best.indices.tolist()
            np.testing.assert_allclose([place["probabilities"] for place in result], best.values, atol=1e-5)
            continue
        got = (result.get("vector") or result["vectors"]) if isinstance(result, dict) else result
        np.testing.assert_allclose(got, want, atol=1e-4)
        alone = [f"--ids={','.join(map(str, ids))}", *([f"--source={','.join(map(str, source))}"] if source else [])]
        single = json.loads(ran(model, *alone, "--json").stdout)
        got = (single.get("vector") or single["vectors"]) if isinstance(single, dict) else single
        np.testing.assert_allclose(got, want, atol=1e-4)


@pytest.mark.parametrize(("name", "blocks"), [("vectors", 1), ("labels", 1), ("masks", 3), ("labels of tokens", 3)])
def test_a_batch_is_told_a_result_a_row(made: Made, name: str, blocks: int) -> None:
    """A line for each text, or, where a text has a line for each token, a block."""
    lines = ran(made(name), *(f"--ids={','.join(map(str, ids))}" for ids in TEXTS)).stdout.rstrip("\n")
    if blocks == 1:
        assert len(lines.splitlines()) == len(TEXTS)
    else:
        assert [len(block.splitlines()) for block in lines.split("\n\n")] == list(map(len, TEXTS))


def test_a_vector_of_ids_can_be_read(made: Made) -> None:
    (line,) = ran(made("vectors"), "--ids=1,2").stdout.splitlines()
    assert line.startswith("32 numbers, norm 1.0000: ")
    assert len(line) < 100


# ----------------------------------------------------------------------------------- settings that are not applied here


def test_settings_of_the_search_that_are_not_applied_are_told(made: Made) -> None:
    path = Path(made("decoder").folder) / "generation_config.json"
    asked = ["--ids=1,2", "-n2"]
    quiet = {"num_beams": 1, "temperature": 0.5, "do_sample": True, "repetition_penalty": 1.0, "min_length": 0, "max_length": 20,
             "length_penalty": 2.0, "early_stopping": True, "pad_token_id": 0, "transformers_version": "5", "use_cache": True,
             "_from_model_config": True, "bad_words_ids": [[7]], "suppress_tokens": [8], "forced_eos_token_id": 9}  # fmt: skip
    loud = {
        "num_beams": 4,
        "no_repeat_ngram_size": 3,
        "bad_words_ids": [[7, 8]],
        "length_penalty": 2.0,
        "something_new": "x",
    }
    try:
        for said in ({}, quiet):
            path.write_text(json.dumps(said))
            assert ran(made("decoder"), *asked).stderr == ""
        path.write_text(json.dumps(loud))
        done = ran(made("decoder"), *asked)
        said = "num_beams 4, no_repeat_ngram_size 3, bad_words_ids, length_penalty 2.0, something_new x"
        assert " ".join(done.stderr.split()) == f"not applied of generation_config.json: {said}"
        assert len(done.stdout.strip().split(",")) == 2
    finally:
        path.unlink()
