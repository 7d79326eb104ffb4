"""`archspec import`: configs as ledgers, layers as the shortest list, and the specs that come out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

from archspec.api import load
from archspec.cli.main import cli
from archspec.compiler.resolve import resolve_text
from archspec.errors import UsageError, WeightsError
from archspec.exporters.weights.config import Ledger
from archspec.exporters.weights.entries import shortest, stacked
from archspec.exporters.weights.imports import spec_of
from archspec.exporters.weights.rotary import rope

LLAMA: dict[str, Any] = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 61, "hidden_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 40, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
    "max_position_embeddings": 64, "hidden_act": "silu", "torch_dtype": "bfloat16", "bos_token_id": 1, "use_cache": True,
    "attention_dropout": 0.0, "pretraining_tp": 1, "rope_scaling": None, "tie_word_embeddings": False,
}  # fmt: skip


def imported(folder: Path, config: dict[str, Any], *allowed: str) -> str:
    (folder / "config.json").write_text(json.dumps(config))
    return spec_of(folder, allowed)


def refused(folder: Path, config: dict[str, Any]) -> str:
    with pytest.raises(WeightsError) as caught:
        imported(folder, config)
    return str(caught.value)


# ------------------------------------------------------------------------------------------------------------ ledger


def test_a_key_is_read_under_any_of_its_names() -> None:
    c = Ledger({"n_embd": 8, "empty": None})
    assert c["hidden_size|n_embd"] == 8
    assert c.get("empty", 3) == 3
    assert c.stated("empty", 3) is None
    assert c.unread() == []


def test_two_names_that_disagree_are_an_error() -> None:
    with pytest.raises(WeightsError, match="one thing twice and differently: n_ctx: 8, n_positions: 9"):
        Ledger({"n_positions": 9, "n_ctx": 8}).get("n_ctx|n_positions")


def test_what_is_missing_or_no_size_is_named() -> None:
    said = (("b", "b: 0, where a whole number"), ("c", "c: true, where"), ("d", 'd: "64", where'))
    for key, told in (("a", "does not say a"), *said):
        with pytest.raises(WeightsError, match=told):
            Ledger({"b": 0, "c": True, "d": "64"}).whole(key)


def test_unread_keys_inside_are_found_too() -> None:
    c = Ledger(
        {"odd": 1, "initializer_range": 0.1, "pad_token_id": 0, "rope_parameters": {"rope_theta": 1.0, "twist": 2}}
    )
    assert c.part("rope_parameters").get("rope_theta") == 1.0
    assert sorted(c.unread()) == ["odd", "rope_parameters.twist"]


def test_a_mapping_that_nobody_opened_is_unread() -> None:
    assert Ledger({"attention": {"heads": 2}}).unread() == ["attention"]


# ----------------------------------------------------------------------------------------------------------- entries


def letters(text: str) -> list[dict[str, Any]]:
    return [{} if letter == "." else {"a": letter} for letter in text]


def spoken(entries: list[dict[str, Any]]) -> str:
    """3(2L G) . for three times two L and a G, then one that says nothing."""
    one = [
        f"{e.get('repeat', 1)}({spoken(e['layers'])})" if "layers" in e
        else f"{e['repeat'] if e.get('repeat', 1) > 1 else ''}{e.get('a', '.')}"
        for e in entries
    ]  # fmt: skip
    return " ".join(one)


def unrolled(entries: list[dict[str, Any]]) -> str:
    """The layers again, one letter each."""
    one = (unrolled(e["layers"]) if "layers" in e else e.get("a", ".") for e in entries)
    return "".join(e.get("repeat", 1) * text for e, text in zip(entries, one, strict=True))


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ("......", "6."),
        ("LLG", "2L G"),
        ("LGLGLG", "3(L G)"),
        ("LGLG", "2(L G)"),
        ("LLLLLGLLLLLGLL", "2(5L G) 2L"),
        ("DDD....", "3D 4."),
        ("DGGLGGLGGL", "D 3(2G L)"),
        ("GLLLGLLLGLLL", "3(G 3L)"),
        ("ABABCDCD", "2(A B) C D C D"),
    ],
)
def test_layers_in_the_fewest_entries(layers: str, said: str) -> None:
    entries = shortest(letters(layers))
    assert spoken(entries) == said
    assert unrolled(entries) == layers


def block(window: int | None, **position: Any) -> dict[str, Any]:
    attention = {"heads": 4, "position": {"kind": "rope", **position} if position else "rope"}
    return {"attention": attention | ({"window": window} if window else {}), "ffn": {"kind": "mlp", "width": 9}}


def test_the_common_part_is_said_once_and_overrides_are_small() -> None:
    found = stacked([*[block(4)] * 5, block(None, theta=1e6), block(4)])
    assert found["attention"] == {"heads": 4, "window": 4, "position": "rope"}
    assert found["ffn"] == {"kind": "mlp", "width": 9}
    assert found["layers"] == [
        {"repeat": 5}, {"attention": {"window": "none", "position": {"theta": 1e6}}}, {"repeat": 1},
    ]  # fmt: skip


def test_another_kind_is_said_in_full() -> None:
    moe = {"kind": "moe", "experts": 4, "top_k": 2}
    found = stacked([block(None), block(None) | {"ffn": moe}, block(None) | {"ffn": moe}])
    assert found["ffn"] == moe
    assert found["layers"] == [{"ffn": {"kind": "mlp", "width": 9}}, {"repeat": 2}]


def test_a_position_that_is_not_there_is_said() -> None:
    nope = block(None)
    nope["attention"] = nope["attention"] | {"position": "none"}
    found = stacked([*[block(None)] * 3, nope])
    assert found["layers"] == [{"repeat": 3}, {"attention": {"position": "none"}}]


# ------------------------------------------------------------------------------------------------------------ configs


def test_a_spec_as_a_person_would_write_it(tmp_path: Path) -> None:
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    config = LLAMA | {
        "_name_or_path": "meta-llama/Llama-3.1-Tiny",
        "rope_scaling": scaling | {"original_max_position_embeddings": 16},
    }
    assert (
        imported(tmp_path, config)
        == """\
archspec: 1
name: llama-3.1-tiny
about: {source: config.json of meta-llama/Llama-3.1-Tiny}
vocab_size: 61
context_length: 64
d_model: 24
dtype: bfloat16
norm: {kind: rmsnorm, eps: 1e-5}
decoder:
  layers: 2
  attention:
    heads: 4
    kv_heads: 2
    position: {kind: rope, theta: 500000, scaling: {kind: ramp, factor: 8, original_context: 16}}
  ffn: {kind: gated, width: 40, activation: silu}
head: {tied: false}
"""
    )


def test_a_key_that_nobody_knows_is_an_error_that_names_it(tmp_path: Path) -> None:
    message = refused(tmp_path, LLAMA | {"twist": 3, "knot": [1]})
    assert "the llama map does not know what to make of knot: [1], twist: 3" in message
    assert "--allow-ignored knot --allow-ignored twist" in message
    assert imported(tmp_path, LLAMA | {"twist": 3}, "twist") == imported(tmp_path, LLAMA)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model_type": "mamba"}, "cannot say `mamba` yet: its layers are state spaces"),
        ({"model_type": "qwen3_5"}, "cannot say `qwen3_5` yet: it has layers with linear attention"),
        ({"model_type": "kimi_k2"}, "the zoo has `kimi-k2`: `archspec show kimi-k2`"),
        ({"model_type": "lama"}, "no family for `lama`"),
        ({"model_type": None}, "does not say what it is"),
        ({"hidden_act": "swoosh"}, "the activation swoosh, which the language does not have"),
        ({"rope_scaling": {"rope_type": "spiral"}}, "rope scaling of type spiral"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 2.0, "twist": 1}}, "rope_scaling.twist: 1"),
        ({"num_hidden_layers": None}, "does not say num_hidden_layers"),
        ({"add_cross_attention": True}, "add_cross_attention: true, which this map does not carry"),
        ({"output_multiplier_scale": 0.5}, "what to make of output_multiplier_scale: 0.5"),
    ],
)
def test_what_cannot_be_said_is_refused(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    assert told in refused(tmp_path, LLAMA | changes)


def test_untied_is_the_familys_default_and_the_config_overrides_it(tmp_path: Path) -> None:
    silent = {k: v for k, v in LLAMA.items() if k != "tie_word_embeddings"}
    assert "head: {tied: false}" in imported(tmp_path, silent)
    assert "head: {tied: true}" in imported(tmp_path, LLAMA | {"tie_word_embeddings": True})


def test_a_body_alone_has_no_head(tmp_path: Path) -> None:
    assert "head: none" in imported(tmp_path, LLAMA | {"architectures": ["LlamaModel"]})


def test_older_configs_say_rotations_in_older_keys() -> None:
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "max_position_embeddings": 64}
    old = {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 2.0}}
    new = {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}}
    assert rope(Ledger(sizes | old)) == rope(Ledger(sizes | new))


@pytest.mark.parametrize(
    ("stated", "m"),
    [
        ({}, 1 + 0.1 * 1.3862943611198906),
        ({"attention_factor": 1.25}, 1.25),
        ({"mscale": 0.7, "mscale_all_dim": 0.7}, 1.0),
        ({"mscale": 1.0, "mscale_all_dim": 0.5}, (1 + 0.13862943611198906) / (1 + 0.06931471805599453)),
    ],
)
def test_the_magnitude_of_a_yarn(stated: dict[str, float], m: float) -> None:
    """factor 4: ln 4 = 1.386..."""
    from archspec.compiler.lower import rotary
    from archspec.language.positions import Rope

    p = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, **stated}
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "max_position_embeddings": 64}
    said = {k: v for k, v in rope(Ledger(sizes | {"rope_parameters": p})).items() if v is not None}
    assert rotary(Rope.model_validate(said), 4).magnitude == pytest.approx(m, abs=1e-15)


# ------------------------------------------------------------------------------------------------------ command line


def test_import_then_build_with_the_weights(tmp_path: Path) -> None:
    checkpoint, run = tmp_path / "checkpoint", CliRunner()
    checkpoint.mkdir()
    imported(checkpoint, LLAMA)
    arch = load(_written(tmp_path / "tiny.yaml", checkpoint))
    shapes = {t.path: t.shape for t in arch.model.tensors()}
    assert sum(torch.Size(s).numel() for s in shapes.values()) == arch.count().parameters.total
    from archspec.exporters.weights.families.llama import FAMILY
    from archspec.exporters.weights.maps import plan

    wanted = {n: s for e in plan(FAMILY, arch.model).entries for n, s in zip(e.theirs, e.shapes, strict=True)}
    save_file({n: torch.randn(s) for n, s in wanted.items()}, checkpoint / "model.safetensors")
    out = run.invoke(
        cli, ["build", str(tmp_path / "tiny.yaml"), "--weights", str(checkpoint), "-o", str(tmp_path / "b")]
    )
    assert out.exit_code == 0, out.output
    assert f"{len(wanted)} tensors read by the llama map" in out.output
    again = run.invoke(cli, ["import", str(checkpoint), "-o", str(tmp_path / "tiny.yaml")])
    assert isinstance(again.exception, UsageError)


def _written(path: Path, checkpoint: Path) -> Path:
    out = CliRunner().invoke(cli, ["import", str(checkpoint / "config.json"), "-o", str(path)])
    assert out.exit_code == 0, out.output
    assert out.output == f"wrote {path}\n"
    return path


def test_the_spec_goes_to_stdout(tmp_path: Path) -> None:
    text = imported(tmp_path, LLAMA)
    out = CliRunner().invoke(cli, ["import", str(tmp_path)])
    assert (out.exit_code, out.output) == (0, text)
    assert resolve_text(text, "spec").warnings == ()


@pytest.mark.parametrize(("name", "told"), [("nowhere", "There is no"), ("empty", "has no config.json")])
def test_nothing_to_import_is_a_usage_error(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=told):
        spec_of(tmp_path / name)
