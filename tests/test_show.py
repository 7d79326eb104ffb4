"""`show` prints a complete spec that is a spec again."""

from __future__ import annotations

import pytest

from archspec.compiler.indices import indices
from archspec.compiler.resolve import resolve, resolve_text
from archspec.compiler.show import show, show_layers
from archspec.compiler.source import zoo_names


@pytest.mark.parametrize("ref", zoo_names())
def test_what_is_shown_resolves_to_the_same(ref):
    resolved = resolve(ref)
    again = resolve_text(show(resolved.spec))
    assert again.spec == resolved.spec
    assert show(again.spec) == show(resolved.spec)
    assert again.warnings == resolved.warnings == ()


def test_what_is_shown_has_every_key_and_no_null(example):
    text = show(resolve_text(example).spec)
    assert "null" not in text
    assert "kv_heads: 4" in text
    assert "softcap: none" in text
    assert "dropout: {embedding: 0, attention: 0, ffn: 0, residual: 0}" in text


@pytest.mark.parametrize(
    "title",
    [
        "yes: no",
        "1e5",
        "010",
        "null",
        " padded ",
        'quo"te',
        "line\nbreak",
        "- dash",
        "é, #x",
        "\x1b[31m",
        "{a: b}",
        "*x",
        "~",
        "",
    ],
)
def test_any_text_survives(example, title):
    spec = resolve_text(example).spec
    named = spec.model_copy(update={"expect": None, "about": type(resolve("gpt2").spec.about)(title=title)})
    assert resolve_text(show(named)).spec == named


def test_only_what_differs_stands_in_an_entry(example):
    text = example.replace("layers: 2", "layers: [{repeat: 2, layers: [{attention: {window: 8}}, {}]}, {}]")
    shown = show(resolve_text(text).spec)
    assert "- {repeat: 1, attention: {window: {kind: sliding, size: 8}}}" in shown
    assert "- {repeat: 1, attention: {window: none}}" in shown
    assert shown.count("heads: 4") == 2  # heads and kv_heads, once


def test_layers_by_index(example):
    text = example.replace(
        "layers: 2", "layers: [{repeat: 6, layers: [{repeat: 5, attention: {window: 8}}, {}]}, {repeat: 2}]"
    )
    assert show_layers(resolve_text(text).spec).split("\n") == [
        "decoder: 38 layers",
        "  0–4, 6–10, …, 30–34  attention: {window: {kind: sliding, size: 8}}",
        "  5, 11, …, 29, 35–37  attention: {window: none}",
        "",
    ]
    assert show_layers(resolve_text(example).spec) == "decoder: 2 layers\n  0–1  all equal\n"


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ("0", "0"),
        ("0 1 2 3 4 5 6 7 8 9", "0–9"),
        ("0 2 4 6", "0, 2, 4, 6"),
        ("0 2 4 6 8", "0, 2, …, 8"),
        ("0 1 5 7 9 11 13 20", "0–1, 5, 7, …, 13, 20"),
        ("0 1 3 4 6 7 9 10 12 13 15", "0–1, 3–4, …, 12–13, 15"),
        ("0 2 4 7 9 11 13 15", "0, 2, 4, 7, 9, …, 15"),
        ("0 3 5 9 14", "0, 3, 5, 9, 14"),
    ],
)
def test_indices_are_runs_and_progressions(layers: str, said: str) -> None:
    assert indices(range(i, i + 1) for i in map(int, layers.split())) == said


def test_layers_without_end_are_shown_in_part(example):
    text = example.replace("layers: 2", "layers: [{repeat: 10000, layers: [{attention: {window: 8}}, {}]}]")
    assert "of them the first 2000" in show_layers(resolve_text(text).spec)
