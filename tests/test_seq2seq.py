"""Encoder-decoders from a checkpoint to an answer: what their files say beside the layers. transformers is the witness."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from parity import Parity, cases
from safetensors.torch import load_file, save_file

from archspec.api import load
from archspec.cli.main import cli
from archspec.compiler.lower import lower
from archspec.compiler.resolve import resolve_text
from archspec.errors import WeightsError
from archspec.exporters.torch.module import build
from archspec.exporters.weights.imports import spec_of
from archspec.exporters.weights.load import LoadReport, read_into
from archspec.exporters.weights.source import open_weights

CASES = {case.name: case for case in cases()}
#: Tokens of a source, its end last.
SOURCE = [7, 9, 30, 12, 41, 2]


def checkpoint(name: str, folder: Path, **config: Any) -> Path:
    """A case's checkpoint, its config changed (None: a key that it does not have)."""
    assert Parity(CASES[name], folder).theirs is not None
    said = json.loads((folder / "config.json").read_text()) | config
    (folder / "config.json").write_text(json.dumps({k: v for k, v in said.items() if v is not None}))
    return folder


def changed(folder: Path, **tensors: torch.Tensor) -> Path:
    """Other tensors in its file."""
    file = folder / "model.safetensors"
    save_file(load_file(file) | tensors, file)
    return folder


def read(spec: str, folder: Path) -> LoadReport:
    """The weights, by a spec."""
    model = lower(resolve_text(spec).spec)
    return read_into(model, open_weights(folder), build(model, dtype="float64"))


def test_a_bias_of_zeros_stands_in_no_spec(tmp_path: Path) -> None:
    """Every BART has the tensor; of those published it is 0."""
    folder = checkpoint("bart", tmp_path)
    biased = spec_of(folder)
    assert "bias: true}\ndropout" in biased
    changed(folder, final_logits_bias=torch.zeros(1, 61, dtype=torch.float64))
    plain = spec_of(folder)
    assert plain == biased.replace("head: {tied: true, bias: true}", "head: {tied: true}")
    assert read(plain, folder).buffers == ("final_logits_bias",)
    assert read(biased, folder).buffers == ()
    changed(folder, final_logits_bias=torch.ones(1, 61, dtype=torch.float64))
    with pytest.raises(WeightsError, match="extra: final_logits_bias"):
        read(plain, folder)


def test_a_body_with_a_tied_head_has_its_head(tmp_path: Path) -> None:
    """facebook/bart-base is a BartModel, and generates."""
    text = spec_of(checkpoint("bart (without its head)", tmp_path))
    assert "head: {tied: true}" in text
    assert read(text, tmp_path).unused == ()


def test_tables_that_are_no_weights(tmp_path: Path) -> None:
    """Files of old: a table of cross attention in T5's that nothing reads, and the sines of Marian's."""
    stray = {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": torch.zeros(8, 6)}
    t5 = changed(checkpoint("t5", tmp_path / "t5"), **stray)
    assert read(spec_of(t5), t5).buffers == tuple(stray)
    waves = {f"model.{side}.embed_positions.weight": torch.zeros(48, 24) for side in ("encoder", "decoder")}
    marian = changed(checkpoint("marian", tmp_path / "marian"), **waves)
    assert set(read(spec_of(marian), marian).buffers) == set(waves)


def test_the_tensors_tell_a_tied_head(tmp_path: Path) -> None:
    """A T5's config says less than its file: transformers 5 writes that every head is tied."""
    for name, tied in (("t5 (gated)", "true"), ("t5 (gated, untied)", "false")):
        folder = checkpoint(name, tmp_path / tied)
        assert f"head: {{tied: {tied}}}" in spec_of(folder)
        alone = json.loads((folder / "config.json").read_text())
        for said in (True, False):
            path = tmp_path / f"{said}.json"
            path.write_text(json.dumps(alone | {"tie_word_embeddings": said}))
            assert f"head: {{tied: {str(said).lower()}}}" in spec_of(path)


def test_two_tables_are_not_one(tmp_path: Path) -> None:
    """A file without a shared table, and a spec with one: both stacks' must be the same."""
    folder = checkpoint("marian (a table of each stack)", tmp_path)
    (folder / "config.json").unlink()
    shared = spec_of(checkpoint("marian", tmp_path / "shared"))
    with pytest.raises(WeightsError, match=r"two different ones in the file: model\.decoder\.embed_tokens\.weight"):
        read(shared, folder)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("bart", "normalize_before", True),
        ("mbart", "add_final_layer_norm", False),
        ("pegasus", "static_position_embeddings", False),
        ("t5", "feed_forward_proj", "swiglu-silu"),
        ("t5", "is_decoder", True),
        ("t5", "encoder_attention_type", "local"),
    ],
)
def test_what_changes_the_function_is_refused(name: str, key: str, value: object, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=key):
        spec_of(checkpoint(name, tmp_path, **{key: value}))


def test_keys_of_older_configs_are_read(tmp_path: Path) -> None:
    """What stands in facebook/bart-large's and is said by the class today, and how it is to generate."""
    folder = checkpoint("bart", tmp_path)
    said = spec_of(folder)
    old = {
        "normalize_before": False, "add_final_layer_norm": False, "normalize_embedding": True, "add_bias_logits": False,
        "static_position_embeddings": False, "extra_pos_embeddings": 2, "num_hidden_layers": 2, "_num_labels": 3, "num_beams": 4,
        "early_stopping": True, "no_repeat_ngram_size": 3, "length_penalty": 2.0, "min_length": 56, "max_length": 142,
        "forced_bos_token_id": 0, "output_past": True, "encoder_layerdrop": 0.1,
    }  # fmt: skip
    assert spec_of(checkpoint("bart", tmp_path, **old)) == said


# ------------------------------------------------------------------------------------------------------------ an answer


def told(*arguments: object) -> str:
    """What a command prints."""
    result = CliRunner().invoke(cli, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


@pytest.mark.parametrize("name", ["marian", "bart", "gpt2", "llama"])
def test_tokens_that_are_never_taken(name: str, tmp_path: Path) -> None:
    """As generation_config.json forbids them. An end is no bad word."""
    folder, theirs = tmp_path / "checkpoint", CASES[name].made()
    config = theirs.generation_config
    begins = {"decoder_start_token_id": 2} if theirs.config.is_encoder_decoder else {}
    config.update(**begins, eos_token_id=1, forced_eos_token_id=None, forced_bos_token_id=None)
    theirs.save_pretrained(folder)
    spec, out = tmp_path / "spec.yaml", tmp_path / "out"
    told("import", folder, "-o", spec)
    told("export", spec, "--weights", folder, "--no-verify", "-o", out)

    def answer(**said: object) -> list[int]:
        config.update(**{"bad_words_ids": None, "suppress_tokens": None, "eos_token_id": 1} | said)
        config.save_pretrained(out)
        greedy = {"num_beams": 1, "do_sample": False, "max_new_tokens": 9, "use_cache": False}
        ids = theirs.generate(torch.tensor([SOURCE]), generation_config=config, **greedy)[0].tolist()
        want = ids[1:] if begins else ids[len(SOURCE) :]
        got = told("run", out, "--source" if begins else "--ids", ",".join(map(str, SOURCE)), "-n", 9)
        assert [int(token) for token in got.split(",")] == want
        return want

    first = answer()[0]
    second = answer(bad_words_ids=[[first]])[0]
    assert second != first
    third = answer(suppress_tokens=[first, second])[0]
    assert third not in (first, second)
    assert answer(bad_words_ids=[[first]], eos_token_id=first) == [first]


def test_settings_of_older_configs_come_along(tmp_path: Path) -> None:
    """Where config.json holds what an answer is made of, and no generation_config.json lies there."""
    old = {"num_beams": 4, "bad_words_ids": [[60]], "forced_eos_token_id": 7, "no_repeat_ngram_size": 3}
    folder = checkpoint("marian", tmp_path / "checkpoint", **old)
    (folder / "generation_config.json").unlink(missing_ok=True)
    told("import", folder, "-o", tmp_path / "spec.yaml")
    told("export", tmp_path / "spec.yaml", "--weights", folder, "--no-verify", "-o", tmp_path / "out")
    asked = ["run", tmp_path / "out", "--source", "7,9,2", "--start", 2, "-n", 3, "--json"]
    result = CliRunner().invoke(cli, [str(a) for a in asked])
    assert "num_beams 4, no_repeat_ngram_size 3" in " ".join(result.stderr.split())
    assert json.loads(result.stdout)["ids"][-1] == 7
    assert json.loads(result.stdout)["finish"] == "length"


@pytest.mark.parametrize("said_in", ["generation_config.json", "config.json"])
@pytest.mark.parametrize(
    ("name", "factor", "forced"),
    [("t5", 2.5, 0), ("mbart", 2, 0), ("mbart", 2, 33), ("m2m_100", 2, 21), ("marian", 1, 0)],
)
def test_an_answer_is_that_of_transformers(name: str, factor: float, forced: int, said_in: str, tmp_path: Path) -> None:
    """From the folder to the tokens, greedily, after what a file of the checkpoint says that an answer begins with.

    factor: of the layers' weights, so that a tied head says more than its own token again.
    """
    folder, theirs = tmp_path / "checkpoint", CASES[name].made()
    with torch.no_grad():
        for path, weight in theirs.named_parameters():
            weight *= factor if re.search(r"layers|block", path) else 1
    begins = {"decoder_start_token_id": CASES[name].values["decoder_start_token_id"]}
    begins |= {"forced_bos_token_id": forced} if forced else {}
    theirs.generation_config.update(**begins)
    theirs.save_pretrained(folder)
    if said_in == "config.json":
        (folder / "generation_config.json").unlink()
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | begins))
    spec, built, exported = (tmp_path / part for part in ("spec.yaml", "built", "exported"))
    told("import", folder, "-o", spec)
    told("build", spec, "--weights", folder, "-o", built)
    told("export", built, "-o", exported)
    greedy = {"num_beams": 1, "do_sample": False, "max_new_tokens": 9, "use_cache": False}
    said = theirs.generate(torch.tensor([SOURCE]), **greedy)[0].tolist()
    read, want = said[: len(begins)], said[len(begins) :]
    assert read == [*begins.values()]
    assert len(set(want)) > 1
    answer = told("run", exported, "--source", ",".join(map(str, SOURCE)), "-n", len(want))
    assert [int(token) for token in answer.split(",")] == want
    assert load(built).model.form == "encoder_decoder"
