"""`archspec diff`: what differs between two specs, by the paths that `--set` takes, and what it costs."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest

from archspec.api import load
from archspec.compiler.compare import Difference, differences
from archspec.compiler.resolve import resolve, resolve_text
from archspec.compiler.show import show
from archspec.compiler.source import zoo_names
from archspec.errors import SpecError, UsageError
from archspec.exporters.compare_tables import change, tables
from archspec.language.model import Spec

GPT2_MEDIUM = {
    "d_model": "768 → 1024",
    "decoder.layers": "12 → 24",
    "decoder.attention.heads": "12 → 16",
    "decoder.attention.kv_heads": "12 → 16",
    "decoder.ffn.width": "3072 → 4096",
}


def spec(text: str, *overrides: str) -> Spec:
    return resolve_text(text, overrides=overrides).spec


def said(found: tuple[Difference, ...]) -> list[tuple[str, str]]:
    """The differences of function, as they are read."""
    return [(d.path, str(d)) for d in found if d.function]


def between(a: str, b: str, *overrides: str) -> list[tuple[str, str]]:
    return said(differences(resolve(a).spec, resolve(b, overrides).spec))


# ----------------------------------------------------------------------------------------------------------- by hand


def test_a_larger_one_of_the_same_family():
    assert dict(between("gpt2", "gpt2-medium")) == GPT2_MEDIUM


def test_a_window_on_every_second_layer():
    window = "decoder.layers=[{repeat: 16, layers: [{attention: {window: 4096}}, {}]}]"
    assert between("llama-3.1-8b", "llama-3.1-8b", window) == [
        ("decoder.attention.window", "none → {kind: sliding, size: 4096} in layers 0, 2, …, 30")
    ]


def test_another_kind_is_one_line_and_equal_stacks_say_nothing():
    assert between("t5-small", "t5-v1.1-small") == [
        ("encoder.layers", "6 → 8"),
        ("encoder.attention.heads", "8 → 6"),
        ("encoder.attention.kv_heads", "8 → 6"),
        ("encoder.ffn", "{kind: mlp, width: 2048, activation: relu} → {kind: gated, width: 1024, activation: gelu_tanh}"),
        ("decoder.layers", "6 → 8"),
        ("decoder.attention.heads", "8 → 6"),
        ("decoder.attention.kv_heads", "8 → 6"),
        ("decoder.cross_attention.heads", "8 → 6"),
        ("decoder.cross_attention.kv_heads", "8 → 6"),
        ("decoder.ffn", "{kind: mlp, width: 2048, activation: relu} → {kind: gated, width: 1024, activation: gelu_tanh}"),
        ("head.tied", "true → false"),
        ("head.scale", "1/sqrt(d_model) → 1"),
    ]  # fmt: skip


def test_a_stack_that_one_lacks_is_one_line():
    found = dict(between("bert-base", "bart-base"))
    assert found["decoder"] == "none → 6 layers"
    assert not [path for path in found if path.startswith("decoder.")]
    assert found["head.transform"] == "{activation: gelu, norm: {kind: layernorm, eps: 1e-12}} → none"
    assert dict(between("bart-base", "bert-base"))["decoder"] == "6 layers → none"


def test_weights_that_layers_share(example):
    shared = "decoder.layers=[{repeat: 4, weights: shared}]"
    row = "decoder.layers=[{repeat: 2, weights: shared, layers: [{}, {}]}]"
    pairs = "decoder.layers=[{repeat: 2, layers: [{repeat: 2, weights: shared}]}]"
    own, one, two, three = (spec(example, x) for x in ("decoder.layers=4", shared, row, pairs))
    assert said(differences(own, one)) == [("decoder.layers.weights", "own → shared in layers 1–3")]
    assert said(differences(own, two)) == [("decoder.layers.weights", "own → shared in layers 2–3")]
    assert said(differences(three, own)) == [("decoder.layers.weights", "shared → own in layers 1, 3")]
    assert said(differences(one, two)) == [
        ("decoder.layers.weights", "shared → own in layer 1"),
        ("decoder.layers.weights", "shared with 0 → shared with 1 in layer 3"),
    ]
    assert said(differences(spec(example, "decoder.layers=1"), one))[1:] == [
        ("decoder.layers.weights", "— → shared in layers 1–3")
    ]


def test_layers_that_only_one_has_are_told_where_they_are_unlike_all_before(example):
    mixture = (
        "{kind: moe, experts: 4, top_k: 1, router: {normalize: false}, expert: {kind: mlp, width: 8, activation: relu}}"
    )
    deeper = spec(example, f"decoder.layers=[{{repeat: 2}}, {{repeat: 3, ffn: {mixture}}}]")
    there = (
        "{kind: moe, experts: 4, top_k: 1, expert: {kind: mlp, width: 8, activation: relu}, router: {normalize: false}}"
    )
    assert said(differences(spec(example), deeper)) == [
        ("decoder.layers", "2 → 5"),
        ("decoder.ffn", f"— → {there} in layers 2–4"),
    ]
    assert said(differences(deeper, spec(example)))[1] == ("decoder.ffn", f"{there} → — in layers 2–4")


def test_a_difference_that_holds_for_all_layers_of_stacks_of_two_depths_names_none(example):
    two, four = "[{attention: {window: 8}}, {}]", "[{repeat: 2, layers: [{attention: {window: 8}}, {}]}]"
    a, b = spec(example, f"decoder.layers={two}"), spec(example, f"decoder.layers={four}", "decoder.ffn.width=100")
    assert said(differences(a, b)) == [("decoder.layers", "2 → 4"), ("decoder.ffn.width", "172 → 100")]
    assert [d.override for d in differences(a, b)] == [None, "decoder.ffn.width=100"]


def test_how_layers_were_grouped_is_no_difference(example):
    grouped = spec(example, "decoder.layers=[{repeat: 2, layers: [{attention: {window: 8}}, {}]}]")
    row = "{attention: {window: 8}}, {}"
    listed = spec(example, f"decoder.layers=[{row}, {row}]")
    assert grouped != listed
    assert differences(grouped, listed) == ()


def test_what_has_no_function_stands_apart():
    other = resolve("gpt2", ["dropout.ffn=0.1", "init.std=0.1", "name=mine", "about.license=none"]).spec
    found = differences(resolve("gpt2").spec, other)
    assert [(d.path, d.words, d.function) for d in found] == [
        ("name", ("gpt2", "mine"), False),
        ("about.license", ("MIT", "none"), False),
        ("dropout.ffn", ("0", "0.1"), False),
        ("init.std", ("0.02", "0.1"), False),
    ]


def test_the_deepest_stacks_are_compared_layer_by_layer(example):
    """20,000 layers are the most there may be."""
    deep = spec(example, "decoder.layers=[{repeat: 10000, layers: [{attention: {window: 8}}, {}]}]")
    assert said(differences(deep, spec(example, "decoder.layers=20000"))) == [
        ("decoder.attention.window", "{kind: sliding, size: 8} → none in layers 0, 2, …, 19998")
    ]


# -------------------------------------------------------------------------------------------------------------- laws


@pytest.fixture(scope="module")
def zoo() -> dict[str, Spec]:
    return {name: resolve(name).spec for name in zoo_names()}


def test_nothing_differs_from_itself(zoo):
    assert not any(differences(spec, resolve_text(show(spec)).spec) for spec in zoo.values())


def form(spec: Spec) -> tuple[bool, bool]:
    return spec.encoder is None, spec.decoder is None


#: The first word of a name: all pairs of a family, and of those that stand for one.
FAMILIES = sorted({name.split("-")[0] for name in zoo_names()})


@pytest.mark.parametrize("family", FAMILIES)
def test_overrides_of_a_difference_make_the_other_spec(zoo, family):
    """Over the complete first spec, what `--set` takes gives the second; what it does not take is left, and no more."""
    members = [name for name in zoo if name.split("-")[0] == family]
    one_each = [next(name for name in zoo if name.split("-")[0] == other) for other in FAMILIES]
    for a, b in {*permutations(members, 2), *((members[0], other) for other in one_each if other != members[0])}:
        found = differences(zoo[a], zoo[b])
        overrides = [d.override for d in found if d.override]
        rest = [(d.path, d.words) for d in found if not d.override]
        if form(zoo[a]) != form(zoo[b]):
            continue
        try:
            made = resolve_text(show(zoo[a]), overrides=overrides).spec
        except SpecError:
            assert any(d.function for d in found if not d.override), (a, b)  # half of what differs need not be a spec
            continue
        assert [(d.path, d.words) for d in differences(made, zoo[b])] == rest, (a, b)
        if not rest:
            assert made == zoo[b], (a, b)


def test_most_pairs_are_one_set_of_overrides_apart(zoo):
    """The law above is about something: within families of equal layers, every difference of function is an override."""
    families = (
        "gpt2",
        "pythia",
        "opt",
        "llama",
        "qwen2.5",
        "qwen3",
        "t5",
        "bert",
        "bloom",
        "falcon",
        "starcoder2",
        "phi",
    )
    for family in families:
        members = [
            name for name in zoo if name.split("-")[0] == family and "scout" not in name and "maverick" not in name
        ]
        for a, b in permutations(members, 2):
            assert not [d.path for d in differences(zoo[a], zoo[b]) if d.function and not d.override], (a, b)


def test_turned_round_it_says_the_same(zoo):
    for a, b in (("gpt2", "llama-3.1-8b"), ("deepseek-v2-lite", "deepseek-v2"), ("bert-base", "t5-small")):
        there, back = (differences(zoo[x], zoo[y]) for x, y in ((a, b), (b, a)))
        mirrored = {(d.path, d.new, d.old, d.words[::-1], d.layers) for d in map(frozen, back)}
        assert {(d.path, d.old, d.new, d.words, d.layers) for d in map(frozen, there)} == mirrored


def frozen(d: Difference) -> Difference:
    return d.replaced(old=json.dumps(d.old), new=json.dumps(d.new))


# ----------------------------------------------------------------------------------------------------------- numbers


def test_the_numbers_are_those_of_count():
    """A step is a token after the others; both are counted for the shorter context."""
    a, b = load("gpt2"), load("llama-3.2-1b")
    record = a.diff(b, precision="int4", compute="fp16", batch=2).record()
    assert (record["batch"], record["length"], record["precision"]["name"]) == (2, 1024, "int4")
    for side, arch in (("a", a), ("b", b)):
        prompt = arch.count(length=1024, batch=2, precision="int4", compute="fp16").record()
        step = arch.count(length=1, past=1023, batch=2).record()
        assert record[side]["parameters"]["total"] == prompt["parameters"]["total"]
        assert record[side]["parameters"]["by_component"] == prompt["parameters"]["by_component"]
        assert record[side]["flops"] == {"prefill": prompt["flops"]["forward"], "step": step["flops"]["forward"]}
        assert record[side]["kv_cache"]["bytes"] == prompt["kv_cache"]["bytes"]
        assert record[side]["memory"]["weights"] == prompt["memory"]["weights"]


def test_a_window_costs_nothing_and_spares_the_cache():
    record = load("llama-3.1-8b").diff(load("llama-3.1-8b", ["decoder.attention.window=4096"])).record()
    a, b = record["a"], record["b"]
    assert a["parameters"] == b["parameters"]
    assert a["kv_cache"]["bytes"] == 32 * b["kv_cache"]["bytes"]  # 131,072 tokens and 4,096
    assert b["flops"]["step"]["causal"] < a["flops"]["step"]["causal"]


def test_an_encoder_has_no_step_and_a_source_is_an_encoder_decoders():
    compared = load("bert-base").diff(load("bart-base"), source_length=7)
    assert compared.a.step is None
    assert compared.b.prefill.lengths.source == 7
    with pytest.raises(UsageError, match="neither spec has an encoder beside a decoder"):
        load("gpt2").diff(load("gpt2-medium"), source_length=7)


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (3, 3, "="),
        (200, 100, "-50.0 %"),
        (1000, 1999, "+99.9 %"),
        (2, 4, "× 2.00"),
        (2, 5000, "× 2,500"),
        (1_000_000, 1_000_003, "+0.0003 %"),
        (0, 5, ""),
        (5, 0, "-100.0 %"),
        (None, 5, ""),
    ],
)
def test_a_change_in_words(a, b, said):
    assert change(a, b) == said


# ------------------------------------------------------------------------------------------------------ command line


def diff(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "archspec.cli.main", "diff", *args], capture_output=True, text=True, env=os.environ | env
    )


def test_exit_codes_are_those_of_diff(tmp_path: Path, example: str):
    (tmp_path / "a.yaml").write_text(example)
    (tmp_path / "b.yaml").write_text(show(spec(example)))
    same = diff(str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml"))
    assert (same.returncode, same.stdout) == (0, "example and example mean the same: their complete specs are equal\n")
    assert diff("gpt2", "gpt2-medium").returncode == 1
    harmless = diff("gpt2", "--set-b", "dropout.ffn=0.1")
    assert harmless.returncode == 1
    assert harmless.stdout == "gpt2 and gpt2 compute the same: what differs has no function\ndropout.ffn  0 → 0.1\n"
    assert diff("gpt2", "--set-b", "decoder.layers=12").returncode == 0
    for wrong in (
        ("gpt2",),
        (),
        ("gpt2", "gpt2", "gpt2"),
        ("gpt2", "gpt2", "--length", "0"),
        ("gpt2", "--set", "d_model=64"),
    ):
        assert diff(*wrong).returncode == 2, wrong


def test_a_spec_at_fault_is_explained():
    done = diff("gpt2", "gpt2-large", "--set-b", "decoder.attention.heads=7")
    assert done.returncode == 1
    assert "error[A" in done.stderr
    assert not done.stdout


def test_overrides_of_both_and_of_one():
    done = diff(
        "gpt2",
        "--set",
        "decoder.layers=2",
        "--set-a",
        "vocab_size=100",
        "--set-b",
        "vocab_size=200",
        "--format",
        "json",
    )
    record = json.loads(done.stdout)
    assert [(d["path"], d["old"], d["new"]) for d in record["differences"]] == [("vocab_size", 100, 200)]
    assert record["a"]["parameters"]["by_component"]["token_embedding"] == 100 * 768


def test_formats_say_the_same():
    record = json.loads(diff("gpt2", "gpt2-medium", "--format", "json").stdout)
    rows = list(csv.DictReader(io.StringIO(diff("gpt2", "gpt2-medium", "--format", "csv").stdout)))
    assert record["differs"]
    assert not record["same_function"]
    functional = [d for d in record["differences"] if d["function"]]
    assert {d["path"]: f"{d['old']} → {d['new']}" for d in functional} == GPT2_MEDIUM
    written = {r["row"]: f"{r['a']} → {r['b']}" for r in rows if r["table"] == "differences"}
    assert {path: written[path] for path in GPT2_MEDIUM} == GPT2_MEDIUM
    total = next(r for r in rows if (r["table"], r["row"]) == ("parameters", "total"))
    assert (total["a"], total["b"]) == ("124439808", "354823168")
    assert "| decoder.layers | 12 → 24 |" in diff("gpt2", "gpt2-medium", "--format", "markdown").stdout


def test_layers_in_json_and_csv():
    record = load("olmo2-7b").diff(load("olmo3-7b")).record()
    window = next(d for d in record["differences"] if d["path"] == "decoder.attention.window")
    assert (window["old"], window["new"], window["set"]) == ("none", {"kind": "sliding", "size": 4096}, None)
    assert window["layers"] == [[first, first + 2] for first in range(0, 32, 4)]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_is_printed_fits_the_terminal(width: int):
    for a, b in (("gpt2", "llama-3.1-8b"), ("llama-4-scout", "llama-4-maverick"), ("deepseek-v2", "llama-3.1-405b")):
        for table in tables(load(a).diff(load(b))):
            assert max(map(len, table.text(width=width).splitlines())) <= width


def test_numbers_stand_side_by_side_at_80():
    *_, numbers = tables(load("llama-3.1-405b").diff(load("deepseek-v3")))
    lines = numbers.text(width=80).splitlines()
    assert lines[2].split() == ["parameters", "405,853,388,800", "671,026,404,352", "+65.3", "%"]


def test_nothing_heavy_is_loaded():
    code = "import sys; from archspec.cli.main import cli; cli.main(['diff', 'gpt2', 'gpt2-medium'], standalone_mode=False)"
    code += "; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "archspec" in loaded
    assert not {"torch", "onnx", "onnxruntime", "numpy", "rich", "transformers"} & loaded
