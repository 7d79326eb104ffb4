"""A tokenizer's chat template: Jinja in a sandbox, with what Hugging Face templates expect to find there.

A template comes with a downloaded model and is a program, so it runs in Jinja's immutable sandbox: no attribute that starts
with an underscore, nothing that changes what it was given.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn, TypedDict

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from archspec.errors import ArchspecError


class Message(TypedDict):
    """One turn of a conversation: role is `system`, `user` or `assistant`, as the template has it."""

    role: str
    content: str


class ChatTemplateError(ArchspecError):
    """A chat template is missing, is not Jinja, or refuses the conversation."""


class _Generation(Extension):
    """`{% generation %}` marks the assistant's own tokens for training; rendering passes through it."""

    tags = {"generation"}  # noqa: RUF012 - the base class has it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own filter escapes HTML, which a model was never trained on.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _now(form: str) -> str:
    return datetime.now().strftime(form)


class ChatTemplate:
    """A compiled template. `special` are the token texts that templates name: `bos_token`, `eos_token`."""

    def __init__(self, source: str, special: Mapping[str, str]) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _Generation]
        )
        environment.filters["tojson"] = _to_json
        environment.globals |= {"raise_exception": _refuse, "strftime_now": _now}
        self._special = dict(special)
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise ChatTemplateError(f"the chat template is not Jinja: line {error.lineno}: {error.message}") from error

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = True) -> str:
        """The conversation as the text that the model was trained on, ready for the assistant's answer.

        Raises ChatTemplateError where the template refuses the conversation or fails on it.
        """
        given: dict[str, Any] = {"messages": [dict(m) for m in messages], "tools": None, "documents": None}
        given |= {"add_generation_prompt": add_generation_prompt, **self._special}
        try:
            return self._template.render(given)
        except jinja2.TemplateError as error:
            raise ChatTemplateError(f"the chat template refuses this conversation: {error.message}") from error
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:  # the template's own doing
            raise ChatTemplateError(f"the chat template fails on this conversation: {error}") from error
