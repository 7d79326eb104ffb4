"""GGUF: blocks, metadata against the spec, and tokenizers made from a file's own vocabulary."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import reference  # noqa: F401 - transformers, offline
import torch
from checkpoints import checkpoint, model, numbered
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import GPT2Tokenizer, Qwen2Tokenizer

from archspec.errors import WeightsError
from archspec.exporters.torch.module import build
from archspec.exporters.weights.gguf import Gguf
from archspec.exporters.weights.load import LoadReport, read_into
from archspec.exporters.weights.source import open_weights
from archspec.exporters.weights.tokenizer import KINDS, bring_tokenizer, tokenizer_json, write_tokenizer

SPEC = """
context_length: 16
norm: {kind: rmsnorm, eps: 1e-5}
decoder:
  layers: 1
  attention: {heads: 4, kv_heads: 2, head_dim: 8, position: {kind: rope, theta: 5000}}
  ffn: {kind: gated, width: 32, activation: silu}
head: {tied: true}
"""
METADATA: dict[str, Any] = {
    "block_count": 1, "context_length": 16, "embedding_length": 8, "feed_forward_length": 32, "vocab_size": 13,
    "attention.head_count": 4, "attention.head_count_kv": 2, "attention.key_length": 8, "rope.dimension_count": 8,
    "rope.freq_base": 5000.0, "attention.layer_norm_rms_epsilon": 1e-5,
}  # fmt: skip


def written(folder: Path, changes: Mapping[str, Any] | None = None, quantised: str = "F32") -> Path:
    """A GGUF file of the small model; `ffn.down`, whose rows are 32 long, as blocks of a kind."""
    made = model(SPEC)
    path = folder / "small.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in (METADATA | dict(changes or {})).items():
        add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}[type(value)]
        add(f"llama.{key}", value)
    for name, tensor in checkpoint(made, "llama (GGUF)", values()).items():
        kind = gguf.GGMLQuantizationType[quantised if "ffn_down" in name else "F32"]
        writer.add_tensor(name, gguf.quants.quantize(tensor.numpy(), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def values() -> dict[str, torch.Tensor]:
    return {path: torch.sin(value) for path, value in numbered(model(SPEC)).items()}


def read(path: Path, spec: str = SPEC, context_length: int | None = 16) -> LoadReport:
    made = model(spec)
    return read_into(made, open_weights(path), build(made, dtype="float32"), context_length)


def test_a_file_is_read_and_its_order_of_rotations_undone(tmp_path: Path) -> None:
    made = model(SPEC)
    module = build(made, dtype="float32")
    report = read_into(made, open_weights(written(tmp_path)), module, 16)
    assert (report.family, report.conversions, report.unused) == ("llama (GGUF)", {}, ())
    stored = dict(module.stored())
    assert all(torch.equal(stored[path], value) for path, value in values().items())


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_blocks_are_dequantised_to_the_nearest_they_can_say(tmp_path: Path, kind: str) -> None:
    source = Gguf(written(tmp_path, quantised=kind))
    exact = values()["decoder.layers.0.ffn.down.weight"]
    steps = {
        "F16": 2**-11,
        "BF16": 2**-8,
        "Q4_0": 1 / 8,
        "Q4_1": 1 / 15,
        "Q5_0": 1 / 16,
        "Q5_1": 1 / 31,
        "Q8_0": 1 / 127,
    }
    got = source.read("blk.0.ffn_down.weight")
    assert got.shape == exact.shape
    assert 0 < float(np.abs(got - exact.numpy()).max()) <= steps[kind] * 1.01
    if kind.startswith("Q"):
        assert read(source.path).conversions == {f"{kind} to float32": 1}


def test_a_block_by_hand(tmp_path: Path) -> None:
    """Q4_1: scale and minimum in float16, then sixteen bytes: low halves are values 0 to 15, high halves 16 to 31."""
    block = np.concatenate([np.array([0.5, -1.0], np.float16).view(np.uint8), np.arange(16, dtype=np.uint8) | 0xF0])
    writer = gguf.GGUFWriter(tmp_path / "b.gguf", "llama")
    writer.add_tensor("x", block.reshape(1, 20), raw_dtype=gguf.GGMLQuantizationType.Q4_1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    source = Gguf(tmp_path / "b.gguf")
    assert source.shapes == {"x": (1, 32)}
    assert source.read("x")[0].tolist() == [0.5 * i - 1 for i in range(16)] + [6.5] * 16


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"attention.head_count_kv": 4}, "attention.kv_heads is 2 in the spec and 4 in the file's metadata"),
        ({"attention.head_count": 2}, "attention.heads is 4 in the spec and 2"),
        ({"block_count": 2}, "decoder.layers is 1 in the spec and 2 in"),
        ({"feed_forward_length": 64}, "ffn.hidden is 32 in the spec and 64"),
        ({"rope.freq_base": 10000.0}, "attention.rope.theta is 5000.0 in the spec and 10000.0"),
        ({"attention.layer_norm_rms_epsilon": 1e-6}, "decoder.final_norm.eps is 1e-05 in the spec and"),
        ({"vocab_size": 14}, "decoder.embedding.vocab is 13 in the spec and 14"),
        ({"context_length": 8}, "context_length is 16 in the spec and 8"),
        ({"rope.scaling.type": "spiral"}, "rope scaling of type spiral"),
        ({"rope.scaling.attn_factor": 2.0}, "does not carry llama.rope.scaling.attn_factor = 2.0"),
        ({"expert_count": 4, "expert_used_count": 2}, "ffn is Gated in the spec and Moe in"),
        ({"attention.sliding_window": 4}, "does not carry llama.attention.sliding_window = 4"),
        ({"rope.dimension_count": 4}, "does not carry llama.rope.dimension_count = 4"),
    ],
)
def test_metadata_that_contradicts_the_spec_is_an_error(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(WeightsError) as caught:
        read(written(tmp_path, changes))
    assert told in str(caught.value)


def test_all_contradictions_at_once(tmp_path: Path) -> None:
    with pytest.raises(WeightsError) as caught:
        read(written(tmp_path, {"rope.freq_base": 1e4, "attention.head_count_kv": 4, "feed_forward_length": 64}))
    assert all(key in str(caught.value) for key in ("rope.theta", "kv_heads", "ffn.hidden"))


def test_options_that_change_nothing_are_no_contradiction(tmp_path: Path) -> None:
    assert read(written(tmp_path, {"rope.scaling.type": "none", "expert_count": 0})).tensors == 11


def test_a_part_of_a_split_file_is_refused(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "a-00001-of-00002.gguf", "llama")
    writer.add_uint16("split.count", 2)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(WeightsError, match="one part of several"):
        open_weights(tmp_path)


# ---------------------------------------------------------------------------------------------------------- tokenizers

TEXTS = [
    "The cat's 1234 hats; they'll cost $56.78!",
    "  two  spaces,\ttabs\n\n\nand  lines \r\n end ",
    "Ærøskøbing naïve café — 東京 2024年 🙂👍🏽 e\u0301",
    "def f(x):\n    return x ** 2  # I'D 'Ve'",
    "<|one|>user\nhi<|two|> there <keep> x",
    "",
]
SPECIALS = ["<|zero|>", "<|one|>", "<|two|>"]


def trained(pre: pre_tokenizers.PreTokenizer) -> tuple[list[str], list[str]]:
    """Tokens and merges of a small byte-pair vocabulary; the last token is an ordinary one that is taken whole."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=SPECIALS, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    made = json.loads(tokenizer.to_str())["model"]
    return [*sorted(made["vocab"], key=made["vocab"].__getitem__), "<keep>"], [" ".join(m) for m in made["merges"]]


def metadata(pre: str, tokens: list[str], merges: list[str], **more: Any) -> dict[str, Any]:
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * 3 + [1] * (len(tokens) - 4) + [4],
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        **{f"tokenizer.ggml.{key}": value for key, value in more.items()},
    }


def split(numbers: str) -> pre_tokenizers.PreTokenizer:
    """Splitting as the vocabularies of Llama 3 and Qwen 2 were made, after their published tokenizer.json."""
    regex = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|" + numbers + r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(regex), "isolated"), bytes_])


def witness(kind: str, tokens: list[str], merges: list[str]) -> Tokenizer:
    """The same vocabulary in a tokenizer that transformers builds, or one set up as published."""
    vocab, pairs = {t: i for i, t in enumerate(tokens[:-1])}, [tuple(m.split(" ")) for m in merges]
    if kind == "qwen2":
        made = Qwen2Tokenizer(vocab=vocab, merges=pairs).backend_tokenizer
    else:
        made = GPT2Tokenizer(vocab=vocab, merges=pairs).backend_tokenizer
    if kind == "llama-bpe":
        made.pre_tokenizer = split(r"\p{N}{1,3}")
    if kind in ("smollm", "starcoder"):
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    made.add_special_tokens(SPECIALS)
    made.add_tokens(["<keep>"])
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_those_of_the_published_tokenizer(kind: str) -> None:
    tokens, merges = trained(witness(kind, *trained(pre_tokenizers.ByteLevel(add_prefix_space=False))).pre_tokenizer)
    ours = Tokenizer.from_str(json.dumps(tokenizer_json(metadata(kind, tokens, merges))))
    theirs = witness(kind, tokens, merges)
    for text in TEXTS:
        assert ours.encode(text).tokens == theirs.encode(text).tokens, text
        ids = ours.encode(text).ids
        assert [tokens[i] for i in ids] == ours.encode(text).tokens
        back = ours.decode(ids, skip_special_tokens=False)
        assert back == (normalizers.NFC().normalize_str(text) if kind == "qwen2" else text)
    assert ours.get_vocab_size() == len(tokens)


def test_kinds_of_splitting_differ() -> None:
    """The texts tell the kinds apart, so that agreement above means something."""
    tokens, merges = trained(pre_tokenizers.ByteLevel(add_prefix_space=False))
    pieces = set()
    for kind in ("gpt-2", "smollm", "qwen2", "llama-bpe"):
        made = Tokenizer.from_str(json.dumps(tokenizer_json(metadata(kind, tokens, merges))))
        pieces.add(str([made.pre_tokenizer.pre_tokenize_str(text) for text in TEXTS]))
    assert len(pieces) == 4


def test_the_files_hold_specials_template_and_length(tmp_path: Path) -> None:
    tokens, merges = trained(pre_tokenizers.ByteLevel(add_prefix_space=False))
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    more = {"general.architecture": "llama", "llama.context_length": 77, "tokenizer.chat_template": template}
    names = write_tokenizer(metadata("gpt-2", tokens, merges) | more, tmp_path)
    assert sorted(names) == sorted(p.name for p in tmp_path.iterdir())
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    special = {"bos_token": "<|one|>", "eos_token": "<|two|>"}
    assert special.items() <= config.items()
    assert json.loads((tmp_path / "special_tokens_map.json").read_text()) == special
    assert (config["chat_template"], config["model_max_length"]) == (template, 77)


@pytest.mark.parametrize(("flags", "ends"), [({"add_bos_token": True}, (1, 0)), ({"add_eos_token": True}, (0, 1))])
def test_ends_are_added_where_the_file_says_so(flags: dict[str, bool], ends: tuple[int, int]) -> None:
    tokens, merges = trained(pre_tokenizers.ByteLevel(add_prefix_space=False))
    plain, framed = (
        Tokenizer.from_str(json.dumps(tokenizer_json(metadata("gpt-2", tokens, merges, **more))))
        for more in ({}, flags)
    )
    ids = plain.encode("cats").ids
    assert framed.encode("cats").ids == [1] * ends[0] + ids + [2] * ends[1]
    assert framed.encode("cats", add_special_tokens=False).ids == ids


@pytest.mark.parametrize(
    ("changes", "told"),
    [({"tokenizer.ggml.pre": "bailingmoe"}, "in the way `bailingmoe`"), ({"tokenizer.ggml.model": "llama"}, "`llama`")],
)
def test_an_unknown_kind_is_an_error_and_no_guess(tmp_path: Path, changes: dict[str, str], told: str) -> None:
    with pytest.raises(WeightsError, match=told):
        write_tokenizer(metadata("gpt-2", [*SPECIALS, "a"], []) | changes, tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_files_beside_a_checkpoint_are_copied(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    source, target = tmp_path / "from", tmp_path / "to"
    for folder in (source, target):
        folder.mkdir()
    save_file({"x": torch.zeros(1)}, source / "model.safetensors")
    (source / "tokenizer.json").write_bytes(b'{"as": "it is"}')
    (source / "vocab.txt").write_text("a\n")
    (source / "README.md").write_text("no")
    for opened in (source, source / "model.safetensors"):
        assert bring_tokenizer(open_weights(opened), target) == ["tokenizer.json", "vocab.txt"]
    assert (target / "tokenizer.json").read_bytes() == b'{"as": "it is"}'
    assert not (target / "README.md").exists()
