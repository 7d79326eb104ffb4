"""Reading a file: scalars by YAML 1.2, places of everything, nothing expanded on trust."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from archspec.api import load
from archspec.compiler.compose import compose
from archspec.compiler.nodes import Node, Report, plain
from archspec.compiler.scalars import AmbiguousError, resolve_plain
from archspec.compiler.source import Source, zoo_names, zoo_text
from archspec.errors import SpecError, UsageError


def read(text: str) -> Node:
    report = Report()
    node = compose(Source("s.yaml", text), report)
    assert not report.errors
    return node


@pytest.mark.parametrize("text", ["1e-5", "1E-05", "+1e-5", "1.0e-5", ".00001", "0.00001"])
def test_every_spelling_of_a_float_is_that_float(text):
    assert resolve_plain(text) == 1e-5
    assert type(resolve_plain(text)) is float


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("+4", 4),
        ("0", 0),
        ("1.", 1.0),
        ("1e5", 1e5),
        ("true", True),
        ("FALSE", False),
        ("no", "no"),
        ("on", "on"),
        ("Yes", "Yes"),
        ("1+w", "1+w"),
        ("1/sqrt(256)", "1/sqrt(256)"),
        ("2024-01-01", "2024-01-01"),
        ("1.2.3", "1.2.3"),
        ("-", "-"),
        ("+-1", "+-1"),
        ("e5", "e5"),
        ("1e", "1e"),
    ],
)
def test_scalars(text, value):
    assert resolve_plain(text) == value
    assert type(resolve_plain(text)) is type(value)


@pytest.mark.parametrize(
    "text", ["010", "-07", "1:30", "1:30:00", "0x1F", "0o17", "0b11", "1_000", ".nan", "-.INF", "1e999", "9" * 30]
)
def test_what_readers_disagree_about_is_refused(text):
    with pytest.raises(AmbiguousError) as raised:
        resolve_plain(text)
    assert raised.value.remedy


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**62), 2**62))
def test_what_python_prints_is_read_back(number):
    assert resolve_plain(repr(number)) == number


@given(
    st.recursive(
        st.integers(-9, 9) | st.booleans() | st.text("abc xyz-#:'\"é", max_size=6),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text("abcdef", min_size=1, max_size=3), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_what_pyyaml_writes_is_read_back(value):
    """The structure is PyYAML's; the scalars here need no guess, so both must agree."""
    text = yaml.safe_dump({"value": value}, allow_unicode=True)

    def listed(read_value):
        if isinstance(read_value, dict):
            return {key: listed(child) for key, child in read_value.items()}
        return [listed(child) for child in read_value] if isinstance(read_value, tuple) else read_value

    assert listed(plain(read(text)))["value"] == value


def test_everything_knows_where_it_stands():
    text = "a: 1\nb:\n  - {c: 'two', d: 3.0}\n  - plain words  # comment\n"

    def walk(node: Node) -> None:
        place = node.place
        found = text.split("\n")[place.line - 1][place.column - 1 :][: place.length]
        if isinstance(node.value, dict):
            for key, child in node.value.items():
                assert child.key is not None
                at = child.key
                assert text.split("\n")[at.line - 1][at.column - 1 :][: at.length] == key
                walk(child)
        elif isinstance(node.value, list):
            for child in node.value:
                walk(child)
        else:
            assert yaml.safe_load(found) == node.value

    walk(read(text))


def test_an_alias_is_the_value_it_names():
    assert plain(read("a: &x {b: 1}\nc: *x\n")) == {"a": {"b": 1}, "c": {"b": 1}}


def test_a_byte_order_mark_and_windows_lines_are_read(tmp_path, example):
    from archspec.compiler.resolve import resolve

    path = tmp_path / "windows.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + example.replace("\n", "\r\n").encode())
    assert resolve(path).spec.name == "example"


def test_a_duplicate_key_names_both_lines():
    report = Report()
    compose(Source("s.yaml", "a: 1\nb: 2\na: 3\n"), report)
    (error,) = report.errors
    assert error.place is not None
    assert error.place.line == 3
    assert "line 1" in (error.remedy or "")


def test_the_zoo_is_text_and_nothing_else_is():
    assert "gpt2" in zoo_names()
    assert "name: gpt2" in zoo_text("gpt2")
    with pytest.raises(SpecError):
        zoo_text("../specs/gpt2")


def test_a_zoo_name_has_no_weights_from_a_folder_that_is_called_so(tmp_path, monkeypatch):
    """The spec is the zoo's, so a checkpoint that happens to lie in `./gpt2` is not its."""
    monkeypatch.chdir(tmp_path)
    for name in ("gpt2", "mine"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "spec.yaml").write_text(zoo_text("gpt2"))
        (folder / "model.safetensors").touch()
    assert load("gpt2").weights is None
    assert load("./gpt2").weights == Path("gpt2/model.safetensors")
    assert load(Path("gpt2")).weights == Path("gpt2/model.safetensors")
    assert load("mine").weights == Path("mine/model.safetensors")


def test_weights_that_nothing_would_hold_are_refused():
    with pytest.raises(UsageError, match=r"my\.safetensors have no place on the device meta"):
        load("gpt2").build(weights="my.safetensors", device="meta")
