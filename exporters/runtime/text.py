"""Text in and out: the tokenizer of an exported folder, its special tokens, and text that grows token by token."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from archspec.errors import UsageError
from archspec.exporters.weights.special import (
    TextError,
    generation_config,
    json_object,
    listed,
    token_text,
    tokenizer_config,
)

from .chat import ChatTemplate, ChatTemplateError, Message
from .generation import Ended, Step
from .pace import Pace

#: What a decoder puts for bytes that are not, or not yet, UTF-8.
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def _generation_tokens(folder: Path) -> dict[str, Any]:
    """The token ids that `generation_config.json` says. Raises TextError for what is none: an end that never comes is a fault
    that nobody sees.
    """
    said = generation_config(folder)
    for key in ("eos_token_id", "decoder_start_token_id", "forced_bos_token_id"):
        given = said.get(key)
        if given is not None and not all(type(i) is int and i >= 0 for i in listed(given)):
            raise TextError(
                f"{folder / 'generation_config.json'}: `{key}` is {json.dumps(given)}, which is no token id",
                "write 2, or [2, 3]",
            )
    return {key: given for key, given in said.items() if key.endswith("token_id")}


def end_ids(folder: Path) -> tuple[int, ...]:
    """Tokens that end an answer in a folder without a tokenizer. Raises TextError as `Text.load` does."""
    said = _generation_tokens(folder).get("eos_token_id")
    return () if said is None else tuple(listed(said))


def start_id(folder: Path) -> int | None:
    """What an encoder-decoder's answer starts from in a folder without a tokenizer. Raises TextError as `Text.load` does."""
    said = _generation_tokens(folder).get("decoder_start_token_id")
    return said if isinstance(said, int) else None


def forced_ids(folder: Path) -> list[int]:
    """What follows the start of every encoder-decoder's answer, whatever the model says: the language to write in, say."""
    said = _generation_tokens(folder).get("forced_bos_token_id")
    return [said] if isinstance(said, int) else []


def _template(path: Path) -> str | None:
    """A chat template, where there is one."""
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise TextError(f"{path} is not UTF-8 text: {error}", "write it in UTF-8") from error


def _tokenizer(path: Path) -> Tokenizer:
    json_object(path)
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        if type(error) is not Exception:  # the library raises the bare class, and nothing narrower
            raise
        raise TextError(f"{path} is not a tokenizer: {error}") from error
    # Files carry the padding and truncation of somebody's training run; here nothing is cut in silence.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


class Text:
    """A tokenizer with the files around it. `Text.load(folder)`; raises TextError where `tokenizer.json` is missing or bad."""

    def __init__(self, tokenizer: Tokenizer, config: dict[str, Any], template: str | None = None) -> None:
        self.tokenizer, self.config, self._template = tokenizer, config, template

    @classmethod
    def load(cls, folder: Path) -> Text:
        """Read `tokenizer.json` and what Hugging Face keeps beside it: special tokens, chat template."""
        if not (folder / "tokenizer.json").is_file():
            raise TextError(
                f"{folder} has no tokenizer.json", "give token ids, or put the model's tokenizer.json there"
            )
        config = tokenizer_config(folder) | _generation_tokens(folder)
        return cls(_tokenizer(folder / "tokenizer.json"), config, _template(folder / "chat_template.jinja"))

    # ---- special tokens

    def special(self, name: str) -> int | None:
        """The id of a special token by its role: `bos_token`, `eos_token`, `pad_token`, `mask_token`... None: there is none."""
        text = token_text(self.config.get(name))
        return None if text is None else self.tokenizer.token_to_id(text)

    @cached_property
    def stop_ids(self) -> tuple[int, ...]:
        """Tokens that end an answer: the tokenizer's eos and those of `generation_config.json`."""
        ids = {i for i in listed(self.config.get("eos_token_id", [])) if isinstance(i, int)}
        eos = self.special("eos_token")
        return tuple(sorted(ids if eos is None else ids | {eos}))

    @cached_property
    def decoder_start_id(self) -> int | None:
        """What an encoder-decoder's answer starts from, where `generation_config.json` says so; else bos."""
        start = self.config.get("decoder_start_token_id")
        return start if isinstance(start, int) else self.special("bos_token")

    # ---- text and ids

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Text -> ids. Special tokens written in the text are read as such; the tokenizer's own frame is added by option."""
        if not isinstance(text, str):
            raise UsageError(f"a text is wanted, and this is a {type(text).__name__}", "give one text at a time")
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Ids -> text, special tokens left out."""
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=True)
        return text

    def token(self, token_id: int) -> str:
        """The text of one token as it stands in the vocabulary."""
        text = self.tokenizer.id_to_token(token_id)
        return f"<{token_id}>" if text is None else text

    # ---- chat

    @cached_property
    def chat_template(self) -> ChatTemplate:
        """The folder's chat template. Raises ChatTemplateError where it has none."""
        source = self._template or self.config.get("chat_template")
        if isinstance(source, list):  # several by name; the plain conversation is the one named default
            source = {t.get("name"): t.get("template") for t in source if isinstance(t, dict)}.get("default")
        if not isinstance(source, str):
            raise ChatTemplateError(
                "this tokenizer has no chat template", "give a plain prompt instead of a conversation"
            )
        tokens = {k: token_text(v) for k, v in self.config.items() if k.endswith("_token")}
        return ChatTemplate(source, {k: v for k, v in tokens.items() if v is not None})

    def ids(self, prompt: str | Sequence[Message]) -> list[int]:
        """A prompt or a conversation -> what a model reads. Raises ChatTemplateError as `encode_chat`."""
        if isinstance(prompt, str):
            return self.encode(prompt)
        turns: Any = prompt
        if not isinstance(turns, Sequence) or not all(isinstance(turn, Mapping) for turn in turns):
            raise UsageError(
                f"a prompt is a text or a conversation, and this is a {type(prompt).__name__}",
                'a conversation is [{"role": "user", "content": "…"}]; token ids go to runtime.generate(…)',
            )
        return self.encode_chat(turns)

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """A conversation -> the ids of its template, ready for the assistant's answer."""
        return self.encode(self.chat_template.render(messages), add_special_tokens=False)


class TextStream:
    """Text that grows with each token. The pieces joined are the text of all tokens decoded at once.

    A token may hold part of a character, and a decoder treats the first token apart (a leading space, say). So the text of
    a token is the difference that it makes behind the tokens before it, held back while it ends inside a character.
    """

    def __init__(self, text: Text) -> None:
        self._text = text
        #: The tokens that matter still: those of the last piece, and behind them those held back.
        self._ids: list[int] = []
        self._shown = 0  # how many of them are in the last piece

    def push(self, token_id: int) -> str:
        """The text that this token completes; empty while a character is incomplete, and for special tokens."""
        self._ids.append(token_id)
        before, now = self._decoded()
        if now.endswith(_REPLACEMENT) or len(now) <= len(before):
            return ""
        self._ids = self._ids[self._shown :]
        self._shown = len(self._ids)
        return now[len(before) :]

    def flush(self) -> str:
        """What was held back, replacement characters included: no token follows any more."""
        before, now = self._decoded()
        self._ids, self._shown = [], 0
        return now[len(before) :]

    def _decoded(self) -> tuple[str, str]:
        return self._text.decode(self._ids[: self._shown]), self._text.decode(self._ids)


class Written(Iterator[str]):
    """The text that one row of steps makes, in pieces as it is made; it ends before the stop token."""

    def __init__(self, text: Text, steps: Iterator[Step], read: int) -> None:
        #: Tokens, and how fast: `read` in the prompt, and those that are made.
        self.pace = Pace(read)
        self._growing, self._steps = TextStream(text), self.pace.over(steps)
        #: Why it ended, as its last step says: `stop` or `length`. None: it goes on, or was broken off.
        self.finish: Ended | None = None

    def __next__(self) -> str:
        for step in self._steps:
            (token,), (self.finish,) = step.tokens, step.ended
            if self.finish != "stop" and token is not None and (piece := self._growing.push(token)):
                return piece
        if rest := self._growing.flush():
            return rest
        raise StopIteration
