"""Tokenizers: made from the vocabulary inside a GGUF file, or copied from beside a checkpoint."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archspec.errors import WeightsError
from archspec.exporters.files import write_text

from .source import Checkpoint
from .special import MODULES, POOLING, special_ids

GENERATION = "generation_config.json"
#: What says in a checkpoint's folder how texts become tokens, and what is made of them: answers, vectors.
FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
    "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", GENERATION, MODULES, POOLING,
)  # fmt: skip
#: How older configs say, beside the model, which tokens an answer is made of.
CHOICE = (
    "forced_bos_token_id", "forced_eos_token_id", "bad_words_ids", "suppress_tokens", "begin_suppress_tokens", "num_beams",
    "min_length", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "repetition_penalty", "length_penalty",
)  # fmt: skip

Json = dict[str, Any]
_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def _bytes(use_regex: bool) -> Json:
    """Bytes as printable characters; with `use_regex`, GPT-2's split into words first."""
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def _digits_alone() -> Json:
    digits = {"type": "Digits", "individual_digits": True}
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, _bytes(True)]}}


def _split(numbers: str) -> Json:
    regex = "|".join([_CONTRACTIONS, _WORDS, numbers, _REST])
    split = {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, _bytes(False)]}}


#: `tokenizer.ggml.pre` -> what comes before the byte pairs.
KINDS: Mapping[str, Json] = {
    "gpt-2": {"pre_tokenizer": _bytes(True)},
    "smollm": _digits_alone(),
    "starcoder": _digits_alone(),
    "qwen2": {"normalizer": {"type": "NFC"}, **_split(r"\p{N}")},
    "llama-bpe": {**_split(r"\p{N}{1,3}"), "ignore_merges": True},
}

#: llama.cpp's token types that are taken whole, before any splitting.
CONTROL, USER_DEFINED = 3, 4
#: Name in tokenizer_config.json -> key below `tokenizer.ggml.`
SPECIAL = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}


def bring_tokenizer(source: Checkpoint, folder: Path) -> list[str]:
    """Put the tokenizer that comes with the weights into `folder`; returns the names of the files.

    Raises `WeightsError` for a vocabulary inside GGUF that is of no known kind.
    """
    if "gguf" in source.formats:
        return write_tokenizer(source.metadata, folder) if "tokenizer.ggml.model" in source.metadata else []
    beside = source.path if source.path.is_dir() else source.path.parent
    names = [name for name in FILES if (beside / name).is_file()]
    for name in names if beside.resolve() != folder.resolve() else []:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(beside / name, folder / name)
    said = special_ids(source.metadata, *CHOICE)
    if GENERATION in names or not said.keys() & {"decoder_start_token_id", *CHOICE}:
        return names
    write_text(folder / GENERATION, json.dumps(said, indent=1) + "\n")  # how an answer is made, as older configs say it
    return [*names, GENERATION]


def write_tokenizer(metadata: Mapping[str, Any], folder: Path) -> list[str]:
    """tokenizer.json, tokenizer_config.json and special_tokens_map.json from GGUF metadata."""
    special = _special(metadata)
    config: Json = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "add_prefix_space": False,
        **special,
    }
    length = metadata.get(f"{metadata.get('general.architecture')}.context_length")
    if length:
        config["model_max_length"] = length
    if template := metadata.get("tokenizer.chat_template"):
        config["chat_template"] = template
    files = {
        "tokenizer.json": tokenizer_json(metadata),
        "tokenizer_config.json": config,
        "special_tokens_map.json": special,
    }
    for name, content in files.items():
        write_text(folder / name, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return list(files)


def tokenizer_json(metadata: Mapping[str, Any]) -> Json:
    """The tokenizer of a GGUF file in the form of the `tokenizers` library."""
    model, pre = metadata.get("tokenizer.ggml.model"), str(metadata.get("tokenizer.ggml.pre"))
    if model != "gpt2":
        raise WeightsError(
            f"The file's tokenizer is of the kind `{model}`, which is not read yet.", "known: gpt2 (BPE)"
        )
    if pre not in KINDS:
        remedy = f"known: {', '.join(KINDS)}; or put the model's own tokenizer.json into the folder"
        raise WeightsError(f"The file's tokenizer splits text in the way `{pre}`, which is not known.", remedy)
    pieces = KINDS[pre]
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    types: list[int] = metadata.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            _added(i, token, kind == CONTROL)
            for i, (token, kind) in enumerate(zip(tokens, types, strict=True))
            if kind in (CONTROL, USER_DEFINED)
        ],
        "normalizer": pieces.get("normalizer"),
        "pre_tokenizer": pieces["pre_tokenizer"],
        "post_processor": _around(metadata, tokens),
        "decoder": _bytes(True),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": pieces.get("ignore_merges", False),
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": [merge.split(" ", 1) for merge in metadata["tokenizer.ggml.merges"]],
        },
    }


def _special(metadata: Mapping[str, Any]) -> dict[str, str]:
    """`bos_token` and the like -> the token."""
    ids = {name: metadata.get(f"tokenizer.ggml.{key}") for name, key in SPECIAL.items()}
    tokens = metadata["tokenizer.ggml.tokens"]
    return {name: tokens[i] for name, i in ids.items() if i is not None}


def _added(i: int, token: str, special: bool) -> Json:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": special}
    return {"id": i, "content": token, **flags}


def _around(metadata: Mapping[str, Any], tokens: list[str]) -> Json | None:
    """What is put before and after every text."""

    def piece(token: str) -> Json:
        return {"SpecialToken": {"id": token, "type_id": 0}}

    ends = []
    for flag, key in (("add_bos_token", "bos_token_id"), ("add_eos_token", "eos_token_id")):
        i = metadata.get(f"tokenizer.ggml.{key}") if metadata.get(f"tokenizer.ggml.{flag}") else None
        ends.append([] if i is None else [tokens[i]])
    before, after = ends
    if not before + after:
        return None
    template = [*map(piece, before), {"Sequence": {"id": "A", "type_id": 0}}, *map(piece, after)]
    pair = [*template, *map(piece, before), {"Sequence": {"id": "B", "type_id": 0}}, *map(piece, after)]
    used = {token: {"id": token, "ids": [tokens.index(token)], "tokens": [token]} for token in before + after}
    return {"type": "TemplateProcessing", "single": template, "pair": pair, "special_tokens": used}
