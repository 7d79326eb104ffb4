"""The merge rules, `extends` and `--set`."""

from __future__ import annotations

import pytest

from archspec.compiler.compose import compose
from archspec.compiler.grammar import DEFAULT_KIND, ENTRY, keys_of
from archspec.compiler.inherit import NEVER_INHERITED
from archspec.compiler.merge import merge
from archspec.compiler.nodes import Report, plain
from archspec.compiler.resolve import resolve, resolve_text
from archspec.compiler.source import Source
from archspec.errors import SpecError


def merged(name: str, base: str, over: str):
    """One text over another, at a key of a layer."""
    read = [compose(Source("s", text), Report()) for text in (base, over)]
    return plain(merge(read[0], read[1], keys_of("entry")[name]))


@pytest.mark.parametrize(
    ("name", "base", "over", "result"),
    [
        ("ffn", "{kind: mlp, width: 4}", "{width: 8}", {"kind": "mlp", "width": 8}),
        ("ffn", "{kind: mlp, width: 4}", "{kind: mlp, bias: true}", {"kind": "mlp", "width": 4, "bias": True}),
        ("ffn", "{kind: mlp, width: 4}", "{kind: gated, bias: true}", {"kind": "gated", "bias": True}),
        ("ffn", "{kind: mlp, width: 4}", "none", "none"),
        ("ffn", "{kind: mlp, width: {ratio: 4}}", "{width: 8}", {"kind": "mlp", "width": 8}),
        ("ffn", "{kind: mlp, bias: [up]}", "{bias: [down]}", {"kind": "mlp", "bias": ("down",)}),
        ("attention", "{heads: 4}", "{kind: softmax, bias: true}", {"heads": 4, "kind": "softmax", "bias": True}),
        ("attention", "{heads: 4}", "{kind: mla}", {"kind": "mla"}),
        ("attention", "{kind: mla, heads: 4}", "{heads: 8}", {"kind": "mla", "heads": 8}),
        ("attention", "{position: rope}", "{position: {theta: 5}}", {"position": {"kind": "rope", "theta": 5}}),
        ("attention", "{position: {kind: rope, dim: 2}}", "{position: rope}", {"position": {"kind": "rope", "dim": 2}}),
        ("attention", "{position: {kind: rope, dim: 2}}", "{position: alibi}", {"position": "alibi"}),
        ("attention", "{position: {kind: rope, dim: 2}}", "{position: none}", {"position": "none"}),
        ("attention", "{window: 4}", "{window: {size: 8}}", {"window": {"kind": "sliding", "size": 8}}),
        ("attention", "{window: {kind: chunk, size: 4}}", "{window: 8}", {"window": 8}),
        (
            "attention",
            "{window: {kind: chunk, size: 4}}",
            "{window: {size: 8}}",
            {"window": {"kind": "chunk", "size": 8}},
        ),
        ("residual", "none", "{branch_scale: 2}", {"branch_scale": 2}),
    ],
)
def test_rules(name, base, over, result):
    assert merged(name, base, over) == result


def test_merging_nothing_and_merging_twice_change_nothing():
    for over in ("{}", "{heads: 4, position: {kind: rope, theta: 5}}"):
        once = merged("attention", "{heads: 4, position: {kind: rope, theta: 5}}", over)
        assert once == {"heads": 4, "position": {"kind": "rope", "theta": 5}}


def test_a_kind_may_be_left_out_exactly_where_the_types_allow_it():
    for name, kind in DEFAULT_KIND.items():
        if name != "window":
            shape = ENTRY.keys_of().get(name) or keys_of("top")[name]
            assert kind in shape.kinds


# ------------------------------------------------------------------------------------------------------------- extends


def test_extends_takes_all_but_the_facts(tmp_path):
    path = tmp_path / "child.yaml"
    path.write_text("archspec: 1\nname: child\nextends: gpt2\nd_model: 96\n", "utf-8")
    child, base = resolve(path).spec, resolve("gpt2").spec
    assert child.d_model == 96
    assert child.expect is None
    assert child.about is None
    assert base.expect is not None
    assert child.vocab_size == base.vocab_size
    assert set(NEVER_INHERITED) == {"name", "about", "expect"}


def test_none_takes_an_inherited_part_away(tmp_path):
    path = tmp_path / "child.yaml"
    path.write_text("name: child\nextends: transformer-base\ndecoder: none\ndropout: none\nhead: none\n", "utf-8")
    child = resolve(path).spec
    assert child.decoder is None
    assert child.encoder.layers[0].attention.heads == 8
    assert child.dropout.residual == 0
    assert resolve("gpt2", ["expect=none", "about=none"]).spec.about is None


def test_extends_a_path_from_where_the_file_is(tmp_path, example, monkeypatch):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "base.yaml").write_text(example, "utf-8")
    (tmp_path / "folder" / "child.yaml").write_text("name: child\nextends: ./base.yaml\nd_model: 32\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    assert resolve("folder/child.yaml").spec.d_model == 32


def test_a_fault_of_the_base_is_shown_in_the_base(tmp_path, example):
    (tmp_path / "base.yaml").write_text(example.replace("heads: 4", "haeds: 4"), "utf-8")
    (tmp_path / "child.yaml").write_text("name: child\nextends: ./base.yaml\nd_modle: 32\n", "utf-8")
    with pytest.raises(SpecError) as raised:
        resolve(tmp_path / "child.yaml")
    assert [d.place.file.rpartition("/")[2] for d in raised.value.diagnostics if d.place] == ["base.yaml", "child.yaml"]


# --------------------------------------------------------------------------------------------------------------- --set


def test_set_is_a_line_of_the_file(example):
    by_file = resolve_text(example.replace("layers: 2", "layers: 3").replace("d_model: 64", "d_model: 128"))
    assert resolve_text(example, overrides=["decoder.layers=3", "d_model=128"]).spec == by_file.spec


def test_set_follows_the_merge_rules(example):
    spec = resolve_text(
        example,
        overrides=["decoder.attention.position.theta=5e5", "decoder.ffn={kind: mlp, width: 8, activation: relu}"],
    ).spec
    layer = spec.decoder.layers[0]
    assert (layer.attention.position.kind, layer.attention.position.theta) == ("rope", 500000.0)
    assert layer.ffn.kind == "mlp"


def test_set_reaches_into_a_list(example):
    text = example.replace("layers: 2", "layers: [{repeat: 2}, {attention: {window: 8}}]")
    spec = resolve_text(text, overrides=["decoder.layers.1.repeat=5", "decoder.layers.0.attention.window=16"]).spec
    assert [(entry.repeat, entry.attention.window.size) for entry in spec.decoder.layers] == [(2, 16), (5, 8)]


def test_the_last_set_wins(example):
    assert resolve_text(example, overrides=["d_model=32", "d_model=96"]).spec.d_model == 96


def test_set_leaves_the_totals_of_the_file_behind():
    """They are facts about the file's model, and this is another one."""
    assert resolve("gpt2", ["decoder.layers=2"]).spec.expect is None
    assert resolve("gpt2", ["expect.parameters=5"]).spec.expect.parameters == 5
    assert resolve("gpt2").spec.expect.parameters == 124439808


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("decoder.layer=2", "A023", "`layers`"),
        ("decoder.layers.1.repeat=2", "A023", "2, not a list"),
        ("decoder.attention.heads.x=2", "A023", "no keys"),
        ("decoder.attention.heads=four", "A103", ""),
        ("decoder.attention.haeds=4", "A023", "`heads`"),
        ("head={teid: true}", "A101", "`tied`"),
        ("extends=gpt2", "A023", ""),
    ],
)
def test_a_bad_set_is_shown_where_it_was_written(example, text, code, hint):
    with pytest.raises(SpecError) as raised:
        resolve_text(example, overrides=[text])
    (error,) = raised.value.diagnostics
    assert (error.code, error.place.file, error.place.text) == (code, "--set", text)
    assert hint in error.render()
