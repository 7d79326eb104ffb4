"""Which tokens begin, end and fill texts, by what a checkpoint and its tokenizer's files say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archspec.errors import ArchspecError

#: Ids of tokens that a config names.
SPECIAL = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
#: Files of sentence-transformers: what a text goes through, and how its tokens' vectors become one.
MODULES, POOLING = "modules.json", "1_Pooling/config.json"


class TextError(ArchspecError):
    """A tokenizer's files are missing, damaged, or do not hold what is asked of them."""


@dataclass(frozen=True)
class SpecialTokens:
    """Ids; None, or none, where nothing names them."""

    bos: int | None = None
    #: Each of them ends a text.
    eos: tuple[int, ...] = ()
    pad: int | None = None


def special_ids(origin: Mapping[str, Any], *more: str) -> dict[str, Any]:
    """The ids of special tokens, and of `more`, that a checkpoint's config, or the metadata of GGUF, names."""
    said = {key.rpartition(".")[2].replace("padding_", "pad_"): key for key in origin}
    return {key: origin[said[key]] for key in (*SPECIAL, *more) if key in said and origin[said[key]] is not None}


def special_tokens(folder: Path, origin: Mapping[str, Any]) -> SpecialTokens:
    """What generation_config.json in `folder` says, then the checkpoint's config, then the tokenizer that lies there.

    The tokenizer's own end token is always one of those that end a text.
    Raises `TextError` where a file is damaged.
    """
    ids = special_ids(origin) | special_ids(generation_config(folder))
    config = tokenizer_config(folder)
    texts = {name: token_text(config.get(name)) for name in ("bos_token", "eos_token", "pad_token")}
    named = _ids_of(folder / "tokenizer.json", {text for text in texts.values() if text})
    own = {name: named.get(text or "") for name, text in texts.items()}
    eos = dict.fromkeys([*listed(ids.get("eos_token_id", [])), own["eos_token"]])
    return SpecialTokens(
        _first(ids.get("bos_token_id"), own["bos_token"]),
        tuple(end for end in eos if isinstance(end, int)),
        _first(ids.get("pad_token_id"), own["pad_token"]),
    )


def generation_config(folder: Path) -> dict[str, Any]:
    """What generation_config.json in a folder says; nothing where there is none. Raises `TextError` where it is damaged."""
    return json_object(folder / "generation_config.json")


def tokenizer_config(folder: Path) -> dict[str, Any]:
    """What the two files beside tokenizer.json say, tokenizer_config.json last. Raises `TextError` where one is damaged."""
    return json_object(folder / "special_tokens_map.json") | json_object(folder / "tokenizer_config.json")


def listed(given: Any) -> list[Any]:
    """One, or a list of several: a config says either."""
    return given if isinstance(given, list) else [given]


def _first(*candidates: Any) -> int | None:
    return next((i for i in candidates if isinstance(i, int)), None)


def json_object(path: Path) -> dict[str, Any]:
    """A JSON object; an absent file is an empty one. Raises `TextError` for what is none."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise TextError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise TextError(f"{path} holds no JSON object")
    return content


def token_text(token: Any) -> str | None:
    """A special token is written as its text or as an object with `content`."""
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else None


def _ids_of(tokenizer: Path, texts: set[str]) -> dict[str, int]:
    """The ids of tokens, as `tokenizer.json` has them."""
    if not texts:
        return {}
    content = json_object(tokenizer)
    found = {t["content"]: t["id"] for t in content.get("added_tokens", []) if t.get("content") in texts}
    vocabulary = content.get("model", {}).get("vocab", {})
    if isinstance(vocabulary, list):  # pieces with their scores
        found |= {piece[0]: i for i, piece in enumerate(vocabulary) if piece[0] in texts - set(found)}
    else:
        found |= {text: vocabulary[text] for text in texts - set(found) if text in vocabulary}
    return found
