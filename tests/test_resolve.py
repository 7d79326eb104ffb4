"""From text to the complete spec: scope of norms, derived values, cross attention, runs of layers."""

from __future__ import annotations

import time

import pytest

from archspec.compiler.resolve import resolve, resolve_text
from archspec.compiler.source import zoo_names
from archspec.errors import SpecError
from archspec.language.norms import L2Norm, LayerNorm, RMSNorm

TWO = """\
archspec: 1
name: two
vocab_size: 100
context_length: 32
d_model: 64
norm: {kind: layernorm, eps: 1e-6}
embedding: {position: learned}
block:
  attention: {heads: 4, bias: true, window: 8}
  ffn: {kind: mlp, width: 128, activation: relu}
encoder: {layers: 2}
decoder: {layers: 3}
head: {tied: true}
"""


def layer_of(text: str, *overrides: str, stack: str = "decoder"):
    return getattr(resolve_text(text, overrides=overrides).spec, stack).layers[0]


@pytest.mark.parametrize("name", zoo_names())
def test_the_zoo_resolves_without_a_word(name):
    resolved = resolve(name)
    assert resolved.spec.name == name
    assert resolved.warnings == ()


# -------------------------------------------------------------------------------------------------------------- norms


def test_every_norm_site_starts_from_the_norm_around_it(example):
    spec = resolve_text(
        example.replace(
            "position: rope", "position: rope, qk_norm: {over: head}, v_norm: rmsnorm, out_norm: {eps: 1e-3}"
        )
        .replace("activation: silu", "activation: silu, mid_norm: {weight: 1+w}")
        .replace("{tied: true}", "{tied: true, transform: {activation: gelu, norm: {weight: none}}}")
        .replace("decoder:", "embedding: {norm: rmsnorm}\ndecoder:")
        .replace("layers: 2", "layers: 2\n  norm: {eps: 1e-4}")
    ).spec
    layer = spec.decoder.layers[0]
    assert spec.norm == RMSNorm(eps=1e-6)
    assert spec.embedding.norm == RMSNorm(eps=1e-6)
    assert spec.head.transform.norm == RMSNorm(eps=1e-6, weight="none")
    assert layer.norm == RMSNorm(eps=1e-4)
    assert spec.decoder.final_norm == RMSNorm(eps=1e-4)
    assert layer.attention.qk_norm.norm == RMSNorm(eps=1e-4)
    assert layer.attention.v_norm == RMSNorm(eps=1e-4)
    assert layer.attention.out_norm == RMSNorm(eps=1e-3)
    assert layer.ffn.mid_norm == RMSNorm(eps=1e-4, weight="1+w")


def test_another_kind_of_norm_starts_afresh(example):
    spec = resolve_text(example.replace("layers: 2", "layers: 2\n  final_norm: layernorm\n  norm: l2norm")).spec
    assert spec.decoder.final_norm == LayerNorm()
    assert spec.decoder.layers[0].norm == L2Norm()


@pytest.mark.parametrize(
    ("placement", "normed"), [("pre", True), ("post", False), ("branch", True), ("sandwich", True), ("none", True)]
)
def test_the_final_norm_follows_the_placement(example, placement, normed):
    spec = resolve_text(example, overrides=[f"decoder.placement={placement}"]).spec
    assert (spec.decoder.final_norm is not None) is normed


def test_the_final_norm_follows_the_last_sublayer(example):
    text = example.replace("layers: 2", "layers: [{}, {ffn: {placement: post}}]")
    assert resolve_text(text).spec.decoder.final_norm is None


# ------------------------------------------------------------------------------------------------------------- derived


def test_heads_give_the_rest(example):
    attention = layer_of(example).attention
    assert (attention.kv_heads, attention.head_dim, attention.v_head_dim, attention.position.dim) == (4, 16, 16, 16)
    assert (attention.mask, attention.placement) == ("causal", "pre")


def test_a_layer_follows_its_own_heads(example):
    text = example.replace("layers: 2", "layers: [{attention: {heads: 8}}, {attention: {head_dim: 32}}, {}]")
    heads = [
        (e.attention.heads, e.attention.kv_heads, e.attention.head_dim) for e in resolve_text(text).spec.decoder.layers
    ]
    assert heads == [(8, 8, 8), (4, 4, 32), (4, 4, 16)]


@pytest.mark.parametrize(("width", "heads", "head_dim"), [(1792, 24, 128), (512, 6, 64)])
def test_a_stated_head_dim_needs_no_division(example, width, heads, head_dim):
    attention = layer_of(
        example, f"d_model={width}", f"decoder.attention.heads={heads}", f"decoder.attention.head_dim={head_dim}"
    ).attention
    assert (attention.heads, attention.head_dim) == (heads, head_dim)


@pytest.mark.parametrize(
    ("ratio", "width", "multiple", "rounded", "whole"),
    [
        (4.0, 768, 1, 3072, True),
        ("8/3", 768, 1, 2048, True),
        ("8/3", 768, 64, 2048, True),
        (2.6667, 768, 64, 2112, False),
        ("8/3", 4096, 256, 11008, False),
        ("8 / 3", 512, 1, 1366, False),
        (2.7, 10, 1, 27, True),
        (1.1, 10, 1, 11, True),
        (2.667, 768, 1, 2049, False),
        (8 / 3, 4096, 256, 11008, False),
        (3.5, 2304, 64, 8064, True),
    ],
)
def test_a_ratio_rounds_up_and_not_for_a_floats_last_digit(example, ratio, width, multiple, rounded, whole):
    sizes = (f"d_model={width}", "decoder.attention.head_dim=16")

    def made(more: str):
        return layer_of(example, *sizes, f"decoder.ffn.width={{ratio: {ratio}{more}}}").ffn.width

    assert made(f", multiple_of: {multiple}") == rounded
    if whole:
        assert made("") == rounded
    else:
        with pytest.raises(SpecError, match="A506"):
            made("")


def test_five_spellings_of_a_float_are_one_spec(example):
    specs = {
        resolve_text(example.replace("1e-6", text)).spec for text in ("1e-5", "1E-05", "+1e-5", "1.0e-5", ".00001")
    }
    assert len(specs) == 1


# ---------------------------------------------------------------------------------------------------------- two stacks


def test_cross_attention_is_the_layers_attention_without_what_needs_one_stack():
    spec = resolve_text(TWO).spec
    cross = spec.decoder.layers[0].cross_attention
    assert (cross.heads, cross.bias, cross.head_dim) == (4, True, 16)
    assert not hasattr(cross, "window")
    assert spec.encoder.layers[0].cross_attention is None
    assert spec.encoder.layers[0].attention.mask == "bidirectional"
    assert spec.embedding.share == "tokens"


def test_cross_attention_may_differ():
    cross = layer_of(TWO, "decoder.cross_attention={kv_heads: 2, bias: false}").cross_attention
    assert (cross.heads, cross.kv_heads, cross.bias) == (4, 2, False)


def test_cross_attention_may_be_left_out_of_a_layer():
    text = TWO.replace("{layers: 3}", "{layers: [{cross_attention: none}, {}]}")
    assert [entry.cross_attention is None for entry in resolve_text(text).spec.decoder.layers] == [True, False]


def test_cross_attention_alone_is_enough():
    layer = layer_of(TWO, "decoder.attention=none", "decoder.cross_attention={heads: 2}")
    assert layer.attention is None
    assert layer.cross_attention.heads == 2


# --------------------------------------------------------------------------------------------------------------- layers


def test_equal_neighbours_are_one_run(example):
    written = [
        "2",
        "[{repeat: 2}]",
        "[{}, {}]",
        "[{repeat: 2, layers: [{}]}]",
        "[{layers: [{}, {repeat: 1}]}]",
        "[{layers: 2}]",
    ]
    assert len({resolve_text(example.replace("layers: 2", f"layers: {layers}")).spec for layers in written}) == 1


def test_shared_layers_are_not_joined(example):
    text = example.replace("layers: 2", "layers: [{repeat: 2, weights: shared}, {repeat: 2, weights: shared}]")
    assert len(resolve_text(text).spec.decoder.layers) == 2


def test_a_group_hands_its_keys_to_its_members(example):
    text = example.replace(
        "layers: 2", "layers: [{repeat: 3, attention: {window: 8}, layers: [{}, {attention: {window: none}}]}]"
    )
    (group,) = resolve_text(text).spec.decoder.layers
    assert group.repeat == 3
    assert [entry.attention.window and entry.attention.window.size for entry in group.layers] == [8, None]


def test_depth_costs_nothing(example):
    def cost(layers: int) -> float:
        text = example.replace("layers: 2", f"layers: {layers}")
        return min(_timed(lambda: resolve_text(text)) for _ in range(5))

    assert cost(126) < cost(2) + 0.005


def _timed(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


# --------------------------------------------------------------------------------------------------------------- errors


def test_all_errors_of_a_file_at_once(example):
    text = (
        example.replace("vocab_size: 1000", 'vocab_size: "1000"')
        .replace("d_model: 64", "d_model: 64\nd_modle: 32")
        .replace("heads: 4", "heads: 6, kv_heads: 4, head_dim: 8")
        .replace("silu", "sillu")
        .replace("{tied: true}", "{tied: true, scale: 1/0}")
    )
    with pytest.raises(SpecError) as raised:
        resolve_text(text)
    assert [d.code for d in raised.value.diagnostics] == ["A103", "A101", "A202", "A105", "A209"]


def test_a_line_that_goes_into_many_layers_is_told_once(example):
    text = example.replace("layers: 2", "layers: [{attention: {window: 8}}, {}, {ffn: none}, {}]").replace(
        "heads: 4", "heads: four"
    )
    with pytest.raises(SpecError) as raised:
        resolve_text(text)
    assert len(raised.value.diagnostics) == 1


def test_faults_come_in_the_order_of_the_file(example):
    text = example.replace("{tied: true}", "{tied: 1}").replace("eps: 1e-6", "eps: 0")
    with pytest.raises(SpecError) as raised:
        resolve_text(text)
    lines = [d.place.line for d in raised.value.diagnostics]
    assert lines == sorted(lines)


def test_what_is_sound_is_checked_beside_what_is_not(example):
    """A misspelt word in one layer does not hide an impossible head count in another, and draws no consequence."""
    text = example.replace("layers: 2", "layers: [{attention: {window: wide}}, {attention: {kv_heads: 3}}]")
    with pytest.raises(SpecError) as raised:
        resolve_text(text)
    assert {d.code for d in raised.value.diagnostics} == {"A103", "A202"}
