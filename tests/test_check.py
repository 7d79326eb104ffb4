"""The checks of a complete spec: where they begin and end, what is not compiled yet, and that no option is dead."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from archspec.compiler.check.expect import expect_missed
from archspec.compiler.grammar import Shape, keys_of
from archspec.compiler.lower import lower
from archspec.compiler.resolve import resolve, resolve_text
from archspec.compiler.show import show
from archspec.errors import SpecError
from archspec.language.model import Spec


def outcome(text: str, overrides: Sequence[str]) -> tuple[Spec | None, set[str]]:
    """The spec, if there is one, and the codes of what is said about it."""
    try:
        resolved = resolve_text(text, overrides=overrides)
    except SpecError as error:
        return None, {d.code for d in error.diagnostics}
    return resolved.spec, {d.code for d in resolved.warnings}


def codes(text: str, *overrides: str) -> list[str]:
    """What is said about a spec, errors or warnings."""
    return sorted(outcome(text, overrides)[1])


SCALING = "decoder.attention.position.scaling"
EIGHT = "[1, 1, 1, 1, 1, 1, 1, 1]"  # a divisor for each pair of 16 channels


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("decoder.attention.window=127", []),
        ("decoder.attention.window=128", ["A305"]),
        ("decoder.attention.window={kind: chunk, size: 128}", ["A305"]),
        ("decoder.attention.mask=prefix", []),
        ("decoder.attention.mask=bidirectional", ["A306"]),
        ("decoder.attention.kv_heads=1", []),
        ("decoder.attention.kv_heads=4", []),
        ("decoder.attention.kv_heads=3", ["A202"]),
        ("decoder.attention.kv_heads=5", ["A203"]),
        ("decoder.attention.scale=1", []),
        ("decoder.attention.scale=1.01", ["A208"]),
        ("decoder.attention.scale=0", ["A208"]),
        ("decoder.attention.scale=1/sqrt(256)", []),
        ("decoder.attention.position.dim=16", []),
        ("decoder.attention.position.dim=18", ["A205"]),
        ("decoder.attention.position.dim=7", ["A204"]),
        ("decoder.attention.position=none", []),
        ("embedding.position=sinusoidal", ["A303"]),
        ("decoder.parallel=two_norms", []),
        ("decoder.placement=branch", []),
        ("decoder.final_norm=none", ["A403"]),
        ("decoder.residual=none", []),
        ("decoder.residual.branch_scale=1.4/sqrt(layers)", []),
        ("decoder.residual.branch_scale=1/head_dim", ["A207"]),
        ("decoder.ffn.residual={branch_scale: 0.5, skip_scale: 0.9}", []),
        ("decoder.ffn.residual.skip_scale=1/head_dim", ["A207"]),
        ("decoder.attention.residual.branch_scale=0", ["A408"]),
        ("decoder={parallel: two_norms, ffn: {residual: {branch_scale: 0.5}}}", []),
        ("decoder={parallel: two_norms, ffn: {residual: {skip_scale: 0.5}}}", ["A401"]),
        ("decoder={parallel: two_norms, ffn: {residual: none}}", ["A401"]),
        ("decoder.ffn.width={ratio: 2.75}", []),
        ("decoder.ffn.width={ratio: 2.7}", ["A506"]),
        ("decoder.ffn.width={ratio: 2.7, multiple_of: 32}", []),
        ("head={kind: classifier, labels: 2, pool: last}", []),
        ("head=pooler", ["A603"]),
        ("dtype=float16", []),
        ("norm.eps=1e-8", []),
        ("decoder.attention.position=alibi", []),
        ("decoder.attention.sinks=true", []),
        ("decoder.attention.temperature={slope: 0.1, period: 128}", []),
        ("decoder.attention.temperature={slope: 0.1, period: 129}", ["A316"]),
        ("decoder.attention.temperature={slope: 0.1, period: 127, offset: 0}", []),
        ("decoder.attention.temperature={slope: 0.1, period: 128, offset: 0}", ["A316"]),
        ("decoder.attention.temperature={growth: power, slope: 0.1, period: 129}", []),
        (f"{SCALING}={{kind: ramp, factor: 4, original_context: 127}}", []),
        (f"{SCALING}={{kind: ramp, factor: 4, original_context: 128}}", ["A307"]),
        (f"{SCALING}={{kind: ramp, factor: 1, original_context: 128}}", []),
        (f"{SCALING}={{kind: dynamic, factor: 4, original_context: 128}}", []),
        (f"{SCALING}={{kind: dynamic, factor: 4, original_context: 129}}", ["A307"]),
        (f"{SCALING}={{kind: yarn, factor: 4, original_context: 32}}", []),
        (f"{SCALING}={{kind: yarn, factor: 4.5, original_context: 32}}", ["A308"]),
        (f"{SCALING}={{kind: yarn, factor: 4, original_context: 128}}", ["A307"]),
        (f"{SCALING}={{kind: ramp, factor: 4, original_context: 32, low_frequency: 4, high_frequency: 4}}", []),
        (f"{SCALING}={{kind: ramp, factor: 4, original_context: 32, low_frequency: 5, high_frequency: 4}}", ["A309"]),
        (f"{SCALING}={{kind: longrope, original_context: 32, short: {EIGHT}, long: {EIGHT}}}", []),
        (f"{SCALING}={{kind: longrope, original_context: 32, short: {EIGHT}, long: [1, 2]}}", ["A310"]),
        (f"{SCALING}={{kind: longrope, original_context: 1, short: {EIGHT}, long: {EIGHT}}}", ["A315"]),
        (f"{SCALING}={{kind: proportional, share: 0.125}}", []),
        (f"{SCALING}={{kind: proportional, share: 0.124}}", ["A315"]),
        ("decoder.attention.position={kind: relative_buckets, buckets: 2, max_distance: 2}", []),
        ("decoder.attention.position={kind: relative_buckets, buckets: 33, max_distance: 17}", []),
        ("decoder.attention.position={kind: relative_buckets, buckets: 33, max_distance: 16}", ["A314"]),
        ("decoder.attention.position={kind: relative_buckets, buckets: 1}", ["A314"]),
    ],
)
def test_where_a_check_begins(example, override, expected):
    assert codes(example, override) == expected


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("experts=2", []),
        ("experts=1", ["A505"]),
        ("top_k=8", []),
        ("top_k=9", ["A501"]),
        ("top_k=1", ["A503"]),
        ("router={normalize: false}", []),
        ("router.score=sigmoid", []),
        ("router={score: sigmoid, normalize: false}", ["A504"]),
        ("router={score: sigmoid, normalize: false, scale: 2.5}", []),
        ("router.scale=0", ["A209"]),
        ("router.groups={count: 4, keep: 1, score: max}", []),
        ("router.groups={count: 4, keep: 4, score: max}", ["A507"]),
        ("router.groups={count: 4, keep: 5, score: max}", ["A502"]),
        ("router.groups={count: 8, keep: 1, score: max}", ["A502"]),
        ("router.groups={count: 8, keep: 2, score: max}", []),
        ("router.groups={count: 8, keep: 2, score: top2_sum}", ["A502"]),
        ("router.groups={count: 3, keep: 2, score: max}", ["A502"]),
        ("router.groups={count: 16, keep: 2, score: max}", ["A502"]),
        ("latent={dim: 63}", []),
        ("latent={dim: 64}", ["A508"]),
        ("expert.width={ratio: 0.33}", ["A506"]),
        ("shared={width: {ratio: 0.33}}", ["A506"]),
    ],
)
def test_where_a_check_of_experts_begins(example, override, expected):
    text = example.replace("{kind: gated, width: 172, activation: silu}", MOE)
    assert codes(text, f"decoder.ffn.{override}") == expected


MOE = "{kind: moe, experts: 8, top_k: 2, expert: {kind: mlp, width: 32, activation: relu}, router: {normalize: true}}"
MLA = (
    "{kind: mla, heads: 4, kv_lora_rank: 16, qk_nope_head_dim: 16, qk_rope_head_dim: 8, v_head_dim: 16, position: rope}"
)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("qk_rope_head_dim=6", []),
        ("qk_rope_head_dim=7", ["A204"]),
        ("position.dim=4", []),
        ("position.dim=10", ["A205"]),
        ("position.scaling={kind: ntk, alpha: 2}", []),
        ("position={dim: 2, scaling: {kind: ntk, alpha: 2}}", ["A315"]),
        ("scale=1.5", ["A208"]),
        ("position=none", []),
        ("window=128", ["A305"]),
        ("kv_lora_rank=none", ["A103"]),
        ("mask=prefix", ["A101"]),
    ],
)
def test_where_a_check_of_latent_attention_begins(example, override, expected):
    text = example.replace("{heads: 4, position: rope}", MLA)
    assert codes(text, f"decoder.attention.{override}") == expected


def test_a_norm_after_the_rotation_sees_what_lengthens_it(example):
    """Without a weight it is the same before the rotation, but where yarn or longrope multiply cos and sin."""
    text = example.replace("position: rope", "position: rope, qk_norm: {over: head, norm: l2norm, order: after_rope}")
    assert codes(text) == ["A311"]
    yarn = "kind: yarn, factor: 4, original_context: 32"
    assert codes(text, f"{SCALING}={{{yarn}}}") == []
    assert codes(text, f"{SCALING}={{{yarn}, mscale_on: none}}") == ["A311"]


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        ("{kind: relative_buckets, buckets: 4, max_distance: 2}", []),
        ("{kind: relative_buckets, buckets: 2}", ["A314"]),
        ("{kind: relative_buckets, buckets: 5}", ["A314"]),
        ("{kind: disentangled, buckets: 3, max_distance: 16}", ["A314"]),
        ("{kind: disentangled, buckets: 8, max_distance: 5}", ["A314"]),
        ("{kind: disentangled, buckets: 8, max_distance: 6}", []),
        ("{kind: disentangled, buckets: 1}", []),
        ("{kind: disentangled, buckets: 8, terms: []}", ["A104"]),
        ("{kind: disentangled, buckets: 8, terms: [c2p, c2p]}", ["A108"]),
        ("alibi", []),
    ],
)
def test_an_encoders_buckets_are_for_two_sides(example, position, expected):
    text = example.replace("decoder:", "encoder:")
    assert codes(text, f"encoder.attention.position={position}") == expected


def test_layers_of_other_heads_need_tables_of_their_own(example):
    layers = "decoder.layers=[{repeat: 2}, {attention: {heads: 8}}]"
    assert codes(example, layers, "decoder.attention.position=relative_buckets") == ["A312"]
    assert codes(example, layers, "decoder.attention.position={kind: relative_buckets, table: per_layer}") == []
    assert codes(example, layers, "decoder.attention.position=alibi") == []


def test_a_window_of_an_encoder_reaches_to_both_sides(example):
    text = example.replace("decoder:", "encoder:")
    assert codes(text, "encoder.attention.window=126") == []
    assert codes(text, "encoder.attention.window=127") == ["A305"]


def test_rope_and_a_pooler_are_at_home_in_an_encoder(example):
    assert codes(example.replace("decoder:", "encoder:"), "head=pooler") == []


@pytest.mark.parametrize("width", [64, 96, 768, 4096])
@pytest.mark.parametrize("heads", [5, 7, 11, 13, 100])
def test_the_heads_that_are_offered_divide(example, width, heads):
    with pytest.raises(SpecError) as raised:
        resolve_text(example, overrides=[f"d_model={width}", f"decoder.attention.heads={heads}"])
    remedy = raised.value.diagnostics[0].remedy or ""
    offered = [int(word) for word in remedy.split(" heads")[0].split(" or ")]
    assert all(width % n == 0 for n in offered)
    assert min(offered) < heads


@pytest.mark.parametrize("heads", range(2, 40))
def test_the_kv_heads_that_are_offered_divide(example, heads):
    for kv_heads in (n for n in range(2, heads) if heads % n):
        overrides = [
            "decoder.attention.head_dim=8",
            f"decoder.attention.heads={heads}",
            f"decoder.attention.kv_heads={kv_heads}",
        ]
        with pytest.raises(SpecError) as raised:
            resolve_text(example, overrides=overrides)
        (error,) = raised.value.diagnostics
        offered = [int(word) for word in re.findall(r"\d+", error.remedy or "")]
        assert error.code == "A202"
        assert offered
        assert all(heads % n == 0 for n in offered)


# --------------------------------------------------------------------------------------------------------------- totals


def test_totals_that_are_met_say_nothing():
    resolved = resolve("gpt2")
    assert expect_missed(resolved.spec, resolved.places, 124439808) is None
    assert expect_missed(resolved.spec, resolved.places, 1, "active_parameters") is None


@pytest.mark.parametrize(
    ("difference", "likely"),
    [
        (50257 * 768, "a token table"),
        (-50257, "a bias per vocabulary entry"),
        (1024 * 768, "a position table"),
        (768, "one vector of d_model"),
        (12 * 4 * 768, "q, k, v and o"),
        (7, "7 more"),
    ],
)
def test_a_missed_total_names_the_likeliest_component(difference, likely):
    resolved = resolve("gpt2")
    missed = expect_missed(resolved.spec, resolved.places, 124439808 + difference)
    assert missed is not None
    assert missed.code == "A801"
    assert likely in missed.message


# --------------------------------------------------------------------------------------------------------- dead options

EXPECT = ["expect={parameters: 5, source: nobody}"]
BASES = {
    "decoder": [],
    "encoder-decoder": [
        "encoder={layers: 3, attention: {heads: 2}, ffn: {kind: mlp, width: 8, activation: relu}}",
        "embedding={position: learned, norm: layernorm, projection: {dim: 32, of: tokens, bias: true}}",
        "decoder.attention={position: none, qk_norm: {over: head}, v_norm: rmsnorm, window: 8, clip: 4, softcap: 9}",
        "decoder.layers=[{repeat: 2}, {repeat: 2, layers: [{parallel: none}, {ffn: {kind: mlp, width: 8, activation: relu}}]}]",
        "head.transform={activation: gelu}",
        *EXPECT,
        "about={title: a, paper: b}",
    ],
    "experts": [
        f"decoder.ffn={MOE}",
        "decoder.ffn.expert={kind: gated, width: 32, activation: silu, mid_norm: rmsnorm, clamp: 7}",
        "decoder.ffn.router={score: sigmoid, selection_bias: score, groups: {count: 4, keep: 2, score: max}}",
        "decoder.ffn={shared: {width: 24, gate: sigmoid}, latent: {dim: 16, norm: rmsnorm}}",
        "decoder.attention={sinks: true, gate: {per: head}, temperature: {slope: 0.1, period: 16}}",
    ],
    "latent": [
        f"decoder.attention={MLA}",
        "decoder.attention={q_lora_rank: 8, temperature: {slope: 0.1, period: 16}, window: 8}",
        "decoder.attention.position.pairing=interleaved",
        "decoder.attention.position.scaling={kind: yarn, factor: 4, original_context: 32, mscale_on: scores}",
    ],
    **{
        kind: [f"decoder.attention.position.scaling={{kind: {kind}, {fields}}}"]
        for kind, fields in {
            "linear": "factor: 4",
            "ntk": "alpha: 4",
            "proportional": "share: 0.5, factor: 2",
            "dynamic": "factor: 4, original_context: 32",
            "ramp": "factor: 4, original_context: 32",
            "yarn": "factor: 4, original_context: 32, beta_fast: 4",
            "longrope": f"original_context: 32, short: {EIGHT}, long: [1, 2, 3, 4, 5, 6, 7, 8]",
        }.items()
    },
    "alibi": ["decoder.attention.position=alibi"],
    "buckets": ["decoder.attention={position: relative_buckets, kv_heads: 2}"],
}
#: What is not an operation: texts, totals, how weights are drawn, a limit that no table has, and what parts start from (in a
#: complete spec each norm site has its own norm, and each sublayer its placement).
NO_OPERATION = re.compile(r"(about|expect|init|norm)\b.*|context_length|([\w.]+\.)?(encoder|decoder|\d)\.placement")
#: What an optional part says when it is written where it was absent.
WRITTEN = {
    "qk_norm": "{over: vector}",
    "gate": "{per: head}",
    "temperature": "{slope: 0.1, period: 64}",
    "scaling": "{kind: linear, factor: 2}",
    "projection": "{dim: 16, of: sum, bias: false}",
    "transform": "{activation: tanh}",
    "position": "learned",
    "about": "{title: x}",
    "expect": "{parameters: 7, source: x}",
    "latent": "{dim: 8}",
    "shared": "{width: 8}",
    "groups": "{count: 4, keep: 2, score: max}",
    "cross_attention": "{heads: 2}",
}


def options(model: BaseModel, path: str = "") -> Iterator[tuple[str, Shape, Any]]:
    """Every field of a spec that is there, by the path that `--set` takes."""
    for name, shape in keys_of(type(model)).items():
        value = getattr(model, name)
        here = f"{path}.{name}" if path else name
        if name != "layers" and name not in ("kind", "archspec"):
            yield here, shape, value
        if isinstance(value, BaseModel):
            yield from options(value, here)
        elif name == "layers" and len(value) == 1:  # a single run is said beside `layers`, not in it
            yield from (
                (at, *rest) for at, *rest in options(value[0], path) if at not in (f"{path}.repeat", f"{path}.weights")
            )
        elif name == "layers":
            for index, entry in enumerate(value):
                yield from options(entry, f"{here}.{index}")


def flips(shape: Shape, value: Any) -> Iterator[str]:
    """Other values of an option."""
    yield from (word for word in shape.words if word != value)
    if bool in shape.types:
        yield "false" if value else "true"
    if int in shape.types:
        yield str(2 * value if isinstance(value, int) and value else 2)
    if float in shape.types:
        yield str(value / 2 if isinstance(value, float) and value else 0.2)
    if str in shape.types and float not in shape.types:
        yield "another"
    if shape.removable and value is not None:
        yield "none"
    if value is None and shape.name in WRITTEN:
        yield WRITTEN[shape.name]
    elif value is None and shape.kinds:
        yield shape.kinds[-1]
    elif isinstance(value, BaseModel) and shape.kinds:
        yield from (kind for kind in shape.kinds if kind != getattr(value, "kind", None))


@pytest.mark.parametrize("name", BASES)
def test_no_option_is_dead(example, name):
    """Each option, flipped alone, changes the spec and the operations, or a diagnostic says why it cannot."""
    written = resolve_text(example, overrides=BASES[name]).spec
    model = lower(written)
    shown = show(written)
    changed_by, dead = 0, []
    for path, shape, value in options(written):
        for flip in flips(shape, value):
            overrides = [f"{path}={flip}", *([] if path.startswith("expect") else EXPECT if written.expect else [])]
            changed, said = outcome(shown, overrides)
            assert not said & {"A022", "A023", "A101"}, f"{path}={flip}"
            assert changed != written, f"{path}={flip}"
            if changed is not None and not said and not NO_OPERATION.fullmatch(path):
                dead += [f"{path}={flip}"] if lower(changed) == model else []
            changed_by += changed is not None
    assert not dead
    assert changed_by > 50
