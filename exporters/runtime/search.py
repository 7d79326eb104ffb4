"""What generation_config.json says of the choice of tokens: what is done here, and what is not."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archspec.exporters.weights.special import TextError, generation_config, listed

GENERATION = "generation_config.json"
#: Keys that say nothing of the choice: whoever asks says how long and by which samples, and the rest is how transformers works.
ASIDE = (
    "do_sample", "temperature", "top_k", "top_p", "max_length", "max_new_tokens", "max_time", "transformers_version", "use_cache",
    "cache_implementation", "cache_config", "max_cache_len", "return_dict_in_generate", "remove_invalid_values", "low_memory",
    "prefill_chunk_size", "compile_config", "disable_compile", "continuous_batching_config", "is_assistant",
    "prompt_lookup_num_tokens", "max_matching_ngram_size", "target_lookbehind", "use_mtp", "speculation_type",
    "num_return_sequences",
)  # fmt: skip
#: Keys that say how several beams are compared: without `num_beams` they do nothing.
OF_BEAMS = ("early_stopping", "length_penalty", "diversity_penalty", "num_beam_groups")
#: Values that do nothing, beside none, false, zero and nothing in a list.
IDLE = {
    "num_beams": 1, "repetition_penalty": 1, "encoder_repetition_penalty": 1, "typical_p": 1, "guidance_scale": 1, "top_h": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Search:
    """never: tokens that are not taken. last: the token that an answer of the greatest length ends with; None: the likeliest.

    unapplied: settings that change which tokens are chosen and are not done here, with their values.
    """

    never: tuple[int, ...] = ()
    last: int | None = None
    unapplied: Mapping[str, Any] = field(default_factory=dict)


def search_of(folder: Path, ends: Collection[int]) -> Search:
    """The settings of a folder's generation_config.json. ends: tokens that end an answer, which no list of bad words forbids.

    Raises TextError where a token of them is none.
    """
    said = generation_config(folder)
    words = [listed(word) for word in _list(said, "bad_words_ids")]
    singles = {word[0] for word in words if len(word) == 1} - set(ends)
    never = singles | set(_list(said, "suppress_tokens"))
    last = listed(said.get("forced_eos_token_id"))
    last = [] if last == [None] else last
    for token in (*never, *last):
        if type(token) is not int or token < 0:
            raise TextError(f"{folder / GENERATION}: {json.dumps(token)} is no token id", "write 2, or [2, 3]")
    done = {"suppress_tokens", *(["bad_words_ids"] if all(len(word) == 1 for word in words) else [])}
    done |= {"forced_eos_token_id"} if len(last) < 2 else set()
    unapplied = {key: value for key, value in said.items() if key not in done and _matters(key, value, said)}
    return Search(tuple(sorted(never)), last[0] if len(last) == 1 else None, unapplied)


def _list(said: Mapping[str, Any], key: str) -> list[Any]:
    given = said.get(key)
    return [] if given is None else listed(given)


def _matters(key: str, value: Any, said: Mapping[str, Any]) -> bool:
    """Does a setting change which tokens are chosen?"""
    if key.startswith(("_", "output_", "assistant_", "num_assistant_")) or key in ASIDE:
        return False
    if key.endswith("token_id") and key != "forced_eos_token_id":
        return False  # where answers begin and end
    if key in OF_BEAMS and said.get("num_beams") in (None, 1):
        return False
    return bool(value) and value != IDLE.get(key)
