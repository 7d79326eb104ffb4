"""What a mistake is told to write instead: names and values of other formats, and YAML that is nearly right.

One mistake is one diagnostic.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from archspec.compiler.resolve import resolve, resolve_text
from archspec.diagnostics import Diagnostic
from archspec.errors import SpecError

SPEC = """archspec: 1
name: example
vocab_size: 1000
context_length: 128
d_model: 64
norm: {kind: rmsnorm, eps: 1e-6}
decoder:
  layers: 2
  attention: {heads: 4, position: rope}
  ffn: {kind: gated, width: 172, activation: silu}
head: {tied: true}
"""
HEAD = "head: {tied: true}"
ROPE = "position: rope"
ATTENTION = "{heads: 4, position: rope}"
NORM = "norm: {kind: rmsnorm, eps: 1e-6}"
FFN = "{kind: gated, width: 172, activation: silu}"
MOE = "{kind: moe, experts: 8, top_k: 2, expert: {kind: gated, width: 32, activation: silu}, router: {normalize: true}}"


def only(text: str, overrides: Sequence[str] = ()) -> Diagnostic:
    """The one diagnostic of a spec."""
    try:
        found = resolve_text(text, overrides=overrides).warnings
    except SpecError as error:
        found = error.diagnostics
    assert len(found) == 1, [d.render() for d in found]
    return found[0]


@pytest.mark.parametrize(
    ("old", "new", "remedy"),
    [
        (HEAD, "tie_word_embeddings: true", "write `head: {tied: true}`"),
        (HEAD, f"{HEAD}\ntie_word_embeddings: false", "write `tied: false` under `head:`"),
        (HEAD, f"{HEAD}\nrope_theta: 1e6", "write `position: {kind: rope, theta: 1e6}` under `attention:`"),
        (HEAD, f"{HEAD}\nrms_norm_eps: 1e-5", "write `eps: 1e-5` under `norm:`"),
        (NORM, "rms_norm_eps: 1e-5", "write `norm: {kind: rmsnorm, eps: 1e-5}`"),
        (NORM, "layer_norm_eps: 1e-5", "write `norm: {kind: layernorm, eps: 1e-5}`"),
        (NORM, "norm: rmsnorm\nlayer_norm_eps: 1e-5", "write `norm: {kind: rmsnorm, eps: 1e-5}`"),
        (
            FFN,
            f"{MOE[:-1]}, n_shared_experts: 3}}",
            "write `shared: {width: 96}`; n shared experts of width w are one of n·w",
        ),
        (
            FFN,
            f"{MOE[:-1]}, shared: {{width: 8, activation: silu}}}}",
            "its `activation` is that of `expert`: remove the line",
        ),
        (FFN, f"{FFN[:-1]}, num_experts: 8}}", "write `ffn: {kind: moe, experts: 8, top_k: …, expert: …, router: …}`"),
        (ROPE, f"{ROPE}, dropout: 0.1", "write `dropout: {attention: 0.1}` at the top of the spec"),
        (ROPE, f"{ROPE}, theta: 1e6", "write `position: {kind: rope, theta: 1e6}`"),
        (FFN, f"{FFN[:-1]}, dropout: 0.1}}\ndropout: {{residual: 0.1}}", "write `ffn: 0.1` under `dropout:`"),
        (HEAD, "head: {kind: pooler, pool: mean}", "a pooler reads the first token; for a mean write `head: none`"),
        (HEAD, f"{HEAD}\nsrc_vocab_size: 1000", "write `vocab_size: 1000`; both stacks have one vocabulary"),
        (HEAD, f"{HEAD}\nhidden_act: gelu_new", "write `activation: gelu_tanh` under `ffn:`"),
        (HEAD, f"{HEAD}\nnum_attention_heads: 4", "write `heads: 4` under `attention:`"),
        ("layers: 2", "layers: 2\n  d_model: 64", "write `d_model: 64` at the top of the spec"),
        (ROPE, f"{ROPE}, multi_query: true", "write `kv_heads: 1`"),
        (ROPE, "rope_theta: 1e6", "write `position: {kind: rope, theta: 1e6}`"),
        (HEAD, f"{HEAD}\nnorm_first: false", "write `placement: post` under `decoder:`"),
        ("layers: 2", "layers: 2\n  norm_first: true", "write `placement: pre`"),
        ("  ffn", "ffn", "it is a key of `encoder`, `decoder` and `block`: indent it under one of them"),
        (ROPE, "position: learned", "`learned` goes under `embedding:`"),
    ],
)
def test_a_key_of_elsewhere(old, new, remedy):
    text = SPEC.replace(old, new)
    assert (only(text).remedy or "").startswith(remedy)


def test_rope_in_the_embedding_is_the_only_fault():
    found = only(SPEC.replace(f", {ROPE}", "") + "embedding: {position: rope}\n")
    assert (found.remedy or "").startswith("`rope` goes under `attention:`")


@pytest.mark.parametrize(
    ("step", "remedy"),
    [
        ("tie_word_embeddings=true", "write `--set head.tied=true`"),
        ("max_position_embeddings=64", "write `--set context_length=64`"),
        ("rope_theta=1e6", "write `--set decoder.attention.position.theta=1e6`"),
        ("decoder.attention.dropout=0.1", "write `--set dropout.attention=0.1`"),
        ("decoder.attention.num_heads=8", "write `--set decoder.attention.heads=8`"),
        ("attn.heads=8", "write `--set decoder.attention.heads=8`"),
        ("heads=8", "write `--set decoder.attention.heads=8`"),
        ("decoder.atention.heads=8", "did you mean `attention`?"),
        ("initializer_range=0.1", "write `--set 'init={kind: normal, std: 0.1}'`"),
        ("decoder.attention.window=full", "write `window: none`"),
        ("decoder.ffn.kind=swiglu", "write `activation: silu` beside `kind: gated`"),
        ("decoder.attention={heads: 4, dropout: 0.1, position: rope}", "write `dropout: {attention: 0.1}` at the top"),
        ("model_type=llama", "it is no part of an architecture: leave it out"),
    ],
)
def test_a_key_of_elsewhere_on_the_command_line(step, remedy):
    assert (only(SPEC, [step]).remedy or "").startswith(remedy)


CONFIG = """model_type: llama
hidden_size: 64
vocab_size: 1000
num_hidden_layers: 2
num_attention_heads: 4
"""


def test_a_config_is_told_once_and_where_its_keys_go():
    found = only(CONFIG)
    assert found.code == "A017"
    assert found.notes == (
        "here `hidden_size` is `d_model`, `num_hidden_layers` is `decoder.layers`, "
        "`num_attention_heads` is `decoder.attention.heads`",
    )
    assert "archspec import" in (found.remedy or "")


def test_a_spec_with_keys_of_a_config_is_a_spec():
    text = f"archspec: 1\nname: mine\nextends: gpt2\n{CONFIG}"
    with pytest.raises(SpecError) as raised:
        resolve_text(text)
    # each of the four keys, and that 64 channels do not split into the 12 heads of gpt2
    assert sorted(d.code for d in raised.value.diagnostics) == ["A101", "A101", "A101", "A101", "A201"]


@pytest.mark.parametrize(
    "ref", ["checkpoint", "./checkpoint", "./checkpoint/config.json", "a b/config.json", "m.gguf", "./m.gguf"]
)
def test_a_checkpoint_is_imported(ref, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("checkpoint", "a b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.json").write_text(
            '{"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 8}'
        )
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + bytes(64))
    with pytest.raises(SpecError) as raised:
        resolve(ref)
    (found,) = raised.value.diagnostics
    command = shlex.split((found.remedy or "").split("`")[1])
    assert command[:3] == ["archspec", "import", os.path.normpath(ref)]
    assert command[3:] == ["-o", f"{'my' if 'json' in ref else Path(ref).stem}.yaml"]


def test_only_the_keys_of_the_kind_are_listed():
    found = only(SPEC, ["decoder.attention.colour=1"])
    assert found.message == "`colour` is not a key of `attention`"
    assert "kv_heads" in (found.remedy or "")
    assert "kv_lora_rank" not in (found.remedy or "")


# --------------------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("old", "new", "remedy"),
    [
        ("eps: 1e-6", 'eps: "1e-5"', "remove the quotes"),
        ("length: 128", "length: 2k", "write 2000, or 2048 if k is 1024"),
        ("length: 128", "length: 32K", "write 32000, or 32768 if k is 1024"),
        ("size: 1000", "size: 40M", "write 40000000"),
        ("size: 1000", "size: 32,000", "write 32000"),
        ("size: 1000", "size: 1e3", "write 1000"),
        (HEAD, f"{HEAD}\ndropout: {{residual: 10%}}", "write 0.1"),
        (HEAD, f"{HEAD}\ndropout: 0.1", "say what is dropped: `dropout: {residual: 0.1}`"),
        *((ROPE, f"{ROPE}, window: {none}", "write `window: none`") for none in ("None", "false", "0", "-1")),
        *((ROPE, f"{ROPE}, qk_norm: {word}", "say over what: `qk_norm: {over: head}`") for word in ("true", "rmsnorm")),
        (ROPE, f"{ROPE}, qk_norm: false", "write `qk_norm: none`"),
        (ROPE, f"{ROPE}, bias: qkv", "write `bias: [q, k, v]`"),
        ("layers: 2", "layers: [8]", "a number of layers stands alone: `layers: 8`"),
        *(("width: 172", f"width: {word}", "write `width: {ratio: 8/3}`") for word in ("8/3", "8/3x", "8/3 * d_model")),
        *(("width: 172", f"width: {word}", "write `width: {ratio: 4}`") for word in ("4x", "4*d_model", "4 * d_model")),
        (FFN, "{kind: SwiGLU, width: 172}", "write `kind: gated, activation: silu`"),
        (FFN, "{kind: geglu, width: 172, bias: true}", "write `kind: gated, activation: gelu`"),
        (FFN, "{kind: reglu, width: 172, activation: relu}", "write `kind: gated`"),
        ("silu", "swiglu", "write `activation: silu` beside `kind: gated`"),
        (ROPE, f"{ROPE}, window: full", "write `window: none`"),
        (NORM, "norm: true", "name its kind: `norm: layernorm`, or `norm: rmsnorm`"),
        (
            "layers: 2",
            "layers: 2\n  cross_attention: true",
            "beside an encoder it is there by default: remove the line",
        ),
        (FFN, MOE.replace("{normalize: true}", "softmax"), "write `router: {score: softmax, normalize: true}`, or"),
        (FFN, MOE.replace("{normalize: true}", "{score: softmax}"), "write `normalize: true`, or `normalize: false`;"),
        (HEAD, "head: mean_pooling", "write `head: none`: vectors are pooled when it runs (`archspec run --embed`)"),
        ("name: example", "name: My-Llama-150M", "did you mean `my-llama-150m`?"),
        ("name: example\n", "", "for example `name: my-model`"),
        ("name: example", "extends: gpt2", "a name is never inherited: `name: my-model`"),
        ("heads: 4", "heads: 7, kv_heads: 4", "4 or 8 heads"),
        ("heads: 4", "heads: 4, kv_heads: 3", "kv_heads must divide heads: 2 or 4 would"),
    ],
)
def test_a_value_written_otherwise(old, new, remedy):
    assert (only(SPEC.replace(old, new)).remedy or "").startswith(remedy)


def test_an_open_bracket_is_shown_and_not_where_the_parser_stopped():
    found = only(SPEC.replace(ATTENTION, ATTENTION[:-1]))
    assert found.code == "A007"
    assert found.place is not None
    assert found.place.text[found.place.column - 1 :] == ATTENTION[:-1]
    assert "`}`" in (found.remedy or "")


@pytest.mark.parametrize("written", ["\n    heads:4", "\n    heads:4\n    position: rope", "{heads:4, position: rope}"])
def test_a_colon_needs_a_space(written):
    assert (only(SPEC.replace(ATTENTION, written)).remedy or "").startswith(
        "a colon needs a space after it: `heads: 4`"
    )


def test_widths_near_a_ratio_that_does_not_come_out():
    found = only(SPEC.replace("width: 172", "width: {ratio: 2.6667}").replace("d_model: 64", "d_model: 32"))
    assert found.remedy == "`width: 85` or `width: 86`, or `multiple_of: 8` to round it up to 88"
    assert resolve_text(SPEC.replace("width: 172", "width: {ratio: 2.6667, multiple_of: 16}")).spec.name == "example"


@pytest.mark.parametrize(("eps", "codes"), [("0.1", []), ("0.11", ["A210"]), ("1e5", ["A210"])])
def test_an_eps_that_outweighs(eps, codes):
    warnings = resolve_text(SPEC.replace("eps: 1e-6", f"eps: {eps}")).warnings
    assert [d.code for d in warnings] == codes


def test_a_decoder_with_nothing_in_it_is_one_mistake():
    encoder = SPEC.replace("decoder:", "encoder:").replace(ATTENTION, "{heads: 4, position: rope}")
    assert only(f"{encoder}decoder: {{layers: 2}}\n").code == "A406"


def test_one_layer_of_a_number_of_layers():
    found = only(SPEC, ["decoder.layers.0.attention.window=8"])
    shown = "decoder.layers=[{attention: {window: …}}, {repeat: 1}]"
    assert f"`--set '{shown}'`" in (found.remedy or "")
    window = resolve_text(SPEC, overrides=[shown.replace("…", "8")]).spec.decoder
    assert window is not None
    assert [layer.repeat for layer in window.layers] == [1, 1]
