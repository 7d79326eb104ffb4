"""What a mistake is told to write instead: names and values of other formats, and YAML that is nearly right.

One mistake is one diagnostic.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from archspec.compiler.resolve import resolve_text
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
        (HEAD, f"{HEAD}\ntie_word_embeddings: false", "write `head: {tied: false}`"),
        (HEAD, f"{HEAD}\nrope_theta: 1e6", "write `position: {kind: rope, theta: 1e6}` under `attention:`"),
        (HEAD, f"{HEAD}\nrms_norm_eps: 1e-5", "write `norm: {eps: 1e-5}`"),
        ("norm: {kind: rmsnorm, eps: 1e-6}", "layer_norm_eps: 1e-5", "write `norm: {eps: 1e-5}`"),
        (ROPE, f"{ROPE}, multi_query: true", "write `kv_heads: 1`"),
        (ROPE, "rope_theta: 1e6", "write `position: {kind: rope, theta: 1e6}`"),
        (HEAD, f"{HEAD}\nnorm_first: false", "write `placement: post` under `decoder:`"),
        ("layers: 2", "layers: 2\n  norm_first: true", "write `placement: pre`"),
        ("  ffn", "ffn", "it is a key of `encoder`, `decoder` and `block`: indent it under one of them"),
        (ROPE, "position: learned", "`learned` goes under `embedding:`"),
    ],
)
def test_a_key_or_a_word_of_elsewhere(old, new, remedy):
    text = SPEC.replace(old, new)
    assert (only(text).remedy or "").startswith(remedy)


def test_rope_in_the_embedding_is_the_only_fault():
    found = only(SPEC.replace(f", {ROPE}", "") + "embedding: {position: rope}\n")
    assert (found.remedy or "").startswith("`rope` goes under `attention:`")


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
        *(("width: 172", f"width: {word}", "write `width: {ratio: 4}`") for word in ("4x", "4*d_model", "4 * d_model")),
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
