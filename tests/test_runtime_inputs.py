"""What a program may give for rows of token ids, and what it is told of all else."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import torch
from exported import exported, rows
from test_runtime_text import folder as with_tokenizer
from tiny import text

import archspec
from archspec.cli.main import COMMANDS, cli
from archspec.errors import IN_PYTHON, ArchspecError, UsageError, in_python
from archspec.exporters.runtime.ids import rows_of
from archspec.exporters.runtime.session import Runtime


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    made = exported(text("gpt2"), tmp_path_factory.mktemp("inputs") / "gpt2", "vocab_size=330")
    return Runtime.load(with_tokenizer(made.folder), "cpu")


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    return Runtime.load(exported(text("seq2seq"), tmp_path_factory.mktemp("inputs") / "seq2seq").folder, "cpu")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    return Runtime.load(exported(text("bert"), tmp_path_factory.mktemp("inputs") / "bert", "head=none").folder, "cpu")


ROWS = [[1, 2, 3], [4, 5, 6]]
#: The same rows, as libraries give them.
SAME: dict[str, Callable[[], Any]] = {
    "tuples": lambda: tuple(map(tuple, ROWS)),
    "an array": lambda: np.array(ROWS),
    "an array of bytes": lambda: np.array(ROWS, np.uint8),
    "a tensor": lambda: torch.tensor(ROWS),
    "tensors": lambda: [torch.tensor(row) for row in ROWS],
    "an array and a list": lambda: [np.array(ROWS[0]), ROWS[1]],
    "numbers of numpy": lambda: [[np.int64(i) for i in row] for row in ROWS],
    "tensors of numbers": lambda: [list(torch.tensor(row)) for row in ROWS],
}


@pytest.mark.parametrize("kind", SAME)
def test_arrays_and_tensors_are_rows(kind: str, decoder: Runtime, beside: Runtime, encoder: Runtime) -> None:
    """Wherever rows are taken."""
    given = SAME[kind]
    assert rows(decoder.generate(given(), max_new_tokens=3)) == rows(decoder.generate(ROWS, max_new_tokens=3))
    np.testing.assert_array_equal(decoder.forward(given()), decoder.forward(ROWS))
    asked = {"decoder_start": 2, "max_new_tokens": 3}
    assert rows(beside.generate(source=given(), **asked)) == rows(beside.generate(source=ROWS, **asked))
    np.testing.assert_array_equal(beside.forward(given(), source=given()), beside.forward(ROWS, source=ROWS))
    np.testing.assert_array_equal(encoder.embed(given()), encoder.embed(ROWS))
    ones = [[1] * len(row) for row in ROWS]
    as_array = np.ones((2, 3), np.int32)
    np.testing.assert_array_equal(
        encoder.forward(given(), token_types=as_array), encoder.forward(ROWS, token_types=ones)
    )


WRONG = [
    ([1, 2, 3], r"one list of numbers.*\n.*\[\[1, 2, 3\]\]"),
    (np.array([1, 2]), "one list of numbers"),
    (torch.tensor([1, 2]), "one list of numbers"),
    (5, "are 5, and rows"),
    ("hello", r"are text.*\n.*runtime\.write"),
    (["hello"], r"row 0 of .* is text.*\n.*runtime\.text\.encode"),
    ([[1], "hello"], "row 1 of .* is text"),
    ([["a"]], r"row 0 of .* holds text.*\n.*runtime\.text\.encode"),
    ([[1, "a"]], "row 0 of .* holds text"),
    ([[1.0]], r"holds 1\.0, which is no token id"),
    (np.array([[0.5]]), r"holds 0\.5, which is no token id"),
    ([[True]], "holds True, which is no token id"),
    (torch.tensor([[True]]), "holds True, which is no token id"),
    ([[[1, 2]]], "holds a list, which is no token id"),
    (np.zeros((1, 1, 1), int), "holds a list, which is no token id"),
    ([[1, None]], "holds a NoneType, which is no token id"),
    ([None], "row 0 of .* is None"),
    ({"input_ids": [[1, 2]]}, "a mapping with input_ids"),
]


@pytest.mark.parametrize(("given", "said"), WRONG, ids=lambda one: str(one)[:20])
def test_what_is_no_row_of_ids_is_told(
    given: Any, said: str, decoder: Runtime, encoder: Runtime, beside: Runtime
) -> None:
    calls: list[Callable[[], object]] = [
        lambda: decoder.generate(given, max_new_tokens=1),
        lambda: decoder.forward(given),
        lambda: beside.generate(source=given, decoder_start=2, max_new_tokens=1),
        lambda: beside.forward([[1]], source=given),
        lambda: encoder.embed(given),
        lambda: encoder.forward([[1, 2]], token_types=given),
        lambda: rows_of(given, "texts"),
    ]
    for call in calls:
        with pytest.raises(UsageError, match=said):
            call()


@pytest.mark.parametrize(
    "prompt", [[1, 2, 3], [[1, 2]], ["a"], {"role": "user", "content": "a"}, 5, np.array([1]), None]
)
def test_what_is_no_prompt_is_told(prompt: Any, decoder: Runtime) -> None:
    with pytest.raises(UsageError, match=r"a text or a conversation.*\n.*runtime\.generate"):
        decoder.write(prompt, max_new_tokens=1)


@pytest.mark.parametrize("given", [["a", "b"], 5, None])
def test_what_is_no_text_is_told(given: Any, decoder: Runtime) -> None:
    with pytest.raises(UsageError, match="one text at a time"):
        decoder.text.encode(given)


def test_write_takes_what_generate_takes(decoder: Runtime) -> None:
    """But rows of ids, for which it takes text."""
    ids = {"prompts", "source"}
    of = {name: dict(inspect.signature(getattr(Runtime, name)).parameters) for name in ("write", "generate")}
    del of["write"]["prompt"]
    assert {name: (p.default, p.annotation) for name, p in of["write"].items()} == {
        name: (p.default, p.annotation) for name, p in of["generate"].items() if name not in ids
    }
    how = {"temperature": 0.9, "top_k": 9, "top_p": 0.8, "seed": 3, "max_new_tokens": 9}
    ((*tokens,),) = rows(decoder.generate([decoder.text.encode("Hello")], **how))
    assert "".join(decoder.write("Hello", **how)) == decoder.text.decode(tokens)
    stopped = "".join(decoder.write("Hello", **how, stop=tokens[4]))
    assert stopped == decoder.text.decode(tokens[: tokens.index(tokens[4])])
    with pytest.raises(UsageError, match="give one of them"):
        decoder.write("Hello", decoder_start=1)


def test_one_stop_token_is_a_stop_token(decoder: Runtime) -> None:
    tokens = rows(decoder.generate([[1, 2]], max_new_tokens=5))[0]
    assert (
        rows(decoder.generate([[1, 2]], max_new_tokens=5, stop=tokens[2]))[0] == tokens[: tokens.index(tokens[2]) + 1]
    )


# ------------------------------------------------------------------------------------------- remedies in both worlds


#: Commands that a method of `Arch` or of `Runtime` stands for.
METHODS: dict[str, tuple[Any, ...]] = {
    "export": (archspec.Arch.export,),
    "build": (archspec.Arch.build, archspec.Arch.save),
    "count": (archspec.Arch.count,),
    "run": (Runtime.load, Runtime.generate, Runtime.forward, Runtime.embed, Runtime.fill_mask, Runtime),
}
#: Options that are the command line's alone: where and how things are printed, and text for the tokenizer.
ITS_OWN = {"--output", "--json", "--stats", "--format", "--explain", "--by", "--chat", "--system", "--set", "--fits"}


@pytest.mark.parametrize("name", METHODS)
def test_every_option_is_called_what_python_calls_it(name: str) -> None:
    arguments = {p for method in METHODS[name] for p in (*inspect.signature(method).parameters, *dir(method))}
    with click.Context(cli) as context:
        command = cli.get_command(context, name)
    assert command is not None
    for option in (o for o in command.params if isinstance(o, click.Option)):
        for said in {opt for opt in option.opts if opt in ("-n", max(option.opts, key=len))} - ITS_OWN:
            if (name, said) == ("build", "--precision"):  # in torch's words there
                continue
            assert re.split("[=(]", in_python(f"say {said} here").split()[1])[0] in arguments, said


def test_the_table_has_no_option_that_there_is_not() -> None:
    with click.Context(cli) as context:
        commands = [cli.get_command(context, name) for name in COMMANDS]
    options = {opt for command in commands if command for param in command.params for opt in param.opts}
    assert set(IN_PYTHON) <= options


@pytest.mark.parametrize(
    ("remedy", "said"),
    [
        ("say --force to replace it", "say overwrite=True to replace it"),
        ("at most 5 (-n), or (--slide)", "at most 5 (max_new_tokens), or (slide=True)"),
        ("say --precision bf16; or --compute", "say precision bf16; or compute"),
        ("a machine larger (--set decoder.layers=2)", 'a machine larger (load(…, ["decoder.layers=2"]))'),
        ("say --keep head --keep decoder.layers.0.*", 'say keep=["head", "decoder.layers.0.*"]'),
        ("--keep PATTERN for what, or --budget", 'keep=["PATTERN"] for what, or budget'),
        ("`archspec export SPEC -o DIR --force` writes it", "`archspec export SPEC -o DIR --force` writes it"),
        ("a cache-n and a -name, 1 - 2, a--b", "a cache-n and a -name, 1 - 2, a--b"),
    ],
)
def test_a_remedy_in_the_words_of_python(remedy: str, said: str) -> None:
    error = UsageError("It is so.", remedy)
    assert (str(error), error.remedy) == (f"It is so.\n  = {said}", remedy)


def test_errors_of_python_calls_say_arguments(tmp_path: Path, decoder: Runtime) -> None:
    arch = archspec.load("gpt2", ["d_model=32", "decoder.layers=1", "decoder.attention.heads=2", "vocab_size=50"])
    arch.save(tmp_path / "built")
    arch.export(tmp_path / "out", verify=False)
    for call, said in (
        (lambda: arch.save(tmp_path / "built"), "overwrite=True"),
        (lambda: arch.export(tmp_path / "out"), "overwrite=True"),
        (lambda: list(decoder.generate([[1] * 20], max_new_tokens=24)), "max_new_tokens"),
        (lambda: decoder.embed([[1]]), "head: none"),
    ):
        with pytest.raises(ArchspecError, match=said) as caught:
            call()
        assert not re.search(r"(?<!\w)--?[a-z]", str(caught.value))
