"""Counts against published totals, hand arithmetic and transformers; the laws that any count obeys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tiny import GROWING, TINY, tiny

from archspec.api import load
from archspec.cli.count import command
from archspec.compiler.count import Counts, count
from archspec.compiler.flops import Counter, count_flops
from archspec.compiler.lower import lower
from archspec.compiler.pairs import pairs
from archspec.compiler.parameters import count_parameters
from archspec.compiler.poly import Poly
from archspec.compiler.resolve import resolve_text
from archspec.errors import UsageError
from archspec.exporters.count_tables import tables
from archspec.ops.model import Model
from archspec.ops.words import Mask

SMALL = """
archspec: 1
name: small
vocab_size: 1000
context_length: 64
d_model: 64
norm: rmsnorm
decoder:
  layers: 2
  attention: {heads: 4, kv_heads: 2, position: rope}
  ffn: {kind: gated, width: 172, activation: silu}
head: {tied: true}
"""

#: Of keys as wide as values: a CPU's fused attention takes no others.
LATENTS = """decoder.attention=
  {kind: mla, heads: 4, kv_lora_rank: 24, qk_nope_head_dim: 8, qk_rope_head_dim: 8, v_head_dim: 16, position: rope}"""
DISTANCES = "decoder.attention={heads: 4, kv_heads: 4, bias: true, position: {kind: disentangled, buckets: 16, max_distance: 40}}"


def small(*overrides: str) -> Model:
    return lower(resolve_text(SMALL, overrides=overrides).spec)


def total(model: Model) -> int:
    return count_parameters(model).total


def dense(model: Model, **lengths: int) -> int:
    return sum(count(model, **lengths).dense.values())


def causal(model: Model, **lengths: int) -> int:
    return sum(count(model, **lengths).causal.values())


# ------------------------------------------------------------------------------------------------- published and by hand


def test_gpt2_small_digit_for_digit() -> None:
    p = load("gpt2").count().parameters
    assert p.by_component["token_embedding"] == 50257 * 768 == 38_597_376
    assert p.by_component["position_embedding"] == 1024 * 768 == 786_432
    (run,) = p.layers
    assert run.by_component == {"norm": 3_072, "attention": 2_362_368, "ffn": 4_722_432}
    assert run.by_component["attention"] == 4 * (768 * 768 + 768)
    assert run.by_component["ffn"] == 2 * 768 * 3072 + 3072 + 768
    assert run.total == 7_087_872
    assert run.count * run.total == 85_054_464
    assert p.by_component["norm"] - run.count * run.by_component["norm"] == 2 * 768 == 1_536
    assert p.total == 124_439_808
    assert p.untied == 163_037_184
    parts = [p.by_component[c] for c in ("token_embedding", "attention", "ffn")]
    assert [round(100 * n / p.total, 1) for n in [*parts, p.total - sum(parts)]] == [31.0, 22.8, 45.5, 0.7]


def test_gpt2_untied() -> None:
    assert load("gpt2", ["head.tied=false"]).count().parameters.total == 163_037_184


def test_gpt2_flops_are_a_closed_formula() -> None:
    """24·D² a token in each layer, the head's 2·V·D, and 4·D for every query-key pair of every layer."""
    d, v, n = 768, 50257, 12
    formula = load("gpt2").count().formula
    b, t, past = Poly.var("B"), Poly.var("T"), Poly.var("P")
    assert formula["dense"] == (24 * d * d * n + 2 * v * d) * b * t + 4 * d * n * b * t * (past + t)
    assert formula["causal"] == (24 * d * d * n + 2 * v * d) * b * t + 4 * d * n * b * Poly.var("pairs")


def test_bert_equals_transformers() -> None:
    import torch
    from transformers import BertConfig, BertForMaskedLM

    with torch.device("meta"):
        theirs = BertForMaskedLM(BertConfig())
    assert total(load("bert-base").model) == sum(p.numel() for p in theirs.parameters())


@pytest.mark.parametrize(("shared", "terms"), [(True, "c2p|p2c"), (False, "c2p|p2c"), (False, "p2c")])
def test_the_flops_of_disentangled_attention_are_those_of_transformers(shared: bool, terms: str) -> None:
    """The witness is torch's counter on transformers' class: distances through their linears, every one against all contents."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import DebertaV2Config, DebertaV2Model

    config = DebertaV2Config(
        vocab_size=50, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=64, relative_attention=True, position_buckets=8, share_att_key=shared,
        pos_att_type=terms, position_biased_input=False,
    )  # fmt: skip
    theirs = DebertaV2Model(config).eval().requires_grad_(False)
    position = f"{{kind: disentangled, buckets: 8, max_distance: 64, terms: [{terms.replace('|', ', ')}]}}"
    ours = tiny(
        "deberta", "vocab_size=50", "encoder.layers=3", "head=none", f"encoder.attention.position={position}",
        f"encoder.attention.position.projections={'shared' if shared else 'own'}",
    )  # fmt: skip
    for batch, length in ((1, 17), (3, 40)):
        with FlopCounterMode(display=False) as counter:
            theirs(torch.zeros(batch, length, dtype=torch.long))
        assert dense(ours, batch=batch, length=length) == counter.get_total_flops()


def test_original_transformer_matrices() -> None:
    """Section 3 of the paper: d_model 512, d_ff 2048. One FFN is twice one attention, biases aside."""
    sizes = {t.path: t.size for t in load("transformer-base").model.tensors() if t.path.endswith(".weight")}

    def of(part: str) -> int:
        return sum(n for path, n in sizes.items() if path.startswith(f"encoder.layers.0.{part}."))

    assert of("ffn") == 2 * 512 * 2048 == 2_097_152
    assert of("attention") == 4 * 512 * 512 == 1_048_576


def test_tied_and_untied_by_hand() -> None:
    """Attention 64·64·2 + 2·64·32, gated FFN 3·64·172, two norms; V·D once or twice."""
    layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 172 + 2 * 64
    assert total(small()) == 1000 * 64 + 2 * layer + 64 == 154_944 + 2 * 64 * 2 + 64 - 320 == 154_944
    assert total(small("head.tied=false")) == 218_944
    assert count(small()).weight_bytes == 4 * 154_944 == 619_776


def test_tying_changes_no_flops() -> None:
    assert dense(small()) == dense(small("head.tied=false"))


# ----------------------------------------------------------------------------------------------------------------- laws


def test_kv_heads_equal_to_heads_is_multi_head_attention() -> None:
    assert small("decoder.attention.kv_heads=4") == small(
        "decoder.attention.kv_heads=4", "decoder.attention.head_dim=16"
    )


@pytest.mark.parametrize("n", [1, 3, 7])
def test_repeats_cost_as_many_copies(n: int) -> None:
    one, many = small("decoder.layers=1"), small(f"decoder.layers={n}")
    layer = count(one).parameters.layers[0].total
    assert total(many) - total(one) == (n - 1) * layer
    assert (dense(many) - dense(one)) * 1 == (n - 1) * (dense(small("decoder.layers=2")) - dense(one))


def test_shared_layers_store_one_and_compute_all() -> None:
    own, shared = small("decoder.layers=[{repeat: 5}]"), small("decoder.layers=[{repeat: 5, weights: shared}]")
    assert total(shared) == total(small("decoder.layers=1"))
    assert total(shared) == sum(t.size for t in shared.tensors())
    assert dense(shared) == dense(own)
    assert count(shared).cache_bytes == count(own).cache_bytes


@pytest.mark.parametrize(
    ("overrides", "sites"),
    [
        (("decoder.attention.placement=sandwich",), ["input_norm", "attention_branch_norm"]),
        (("decoder.placement=post", "decoder.attention.placement=pre", "decoder.ffn.placement=pre"), ["input_norm"]),
    ],
)
def test_parallel_sublayers_behind_one_norm_keep_norms_of_their_own(
    overrides: tuple[str, ...], sites: list[str]
) -> None:
    """A sublayer's placement is its own, whatever the block's is; the one norm stands for those at the inputs."""
    model = tiny("parallel", "decoder.parallel=one_norm", "decoder.layers=1", *overrides)
    norms = [t.path.split(".")[3] for t in model.tensors() if ".layers." in t.path and t.component == "norm"]
    assert norms == sites


def test_full_attention_grows_faster_than_the_length() -> None:
    assert dense(small(), length=32) > 2 * dense(small(), length=16)


def test_prefill_in_two_parts_costs_what_one_call_does() -> None:
    m = small()
    assert causal(m, length=48) == causal(m, length=31) + causal(m, length=17, past=31)


def test_a_window_bounds_pairs_and_cache() -> None:
    windowed = small("decoder.attention.window=8")
    assert dense(windowed, length=40) == dense(small(), length=40)
    assert causal(windowed, length=40) < causal(small(), length=40)
    assert count(windowed, length=40).cache_bytes == 2 * 2 * (2 * 16) * 8 * 4
    assert count(small(), length=40).cache_bytes == 2 * 2 * (2 * 16) * 40 * 4


def test_cross_attention_keys_are_computed_once() -> None:
    m = load("transformer-base").model
    first, later = (sum(count(m, length=1, past=p, source_length=20).causal.values()) for p in (0, 1))
    encoder = sum(p.at(lambda n: {"B": 1, "M": 20, "first": 1}.get(n, 0)) for p in count_flops(m).causal.values())
    per_token_pair = 6 * 4 * 512  # one more self-attention pair in six layers
    assert first - later == encoder - per_token_pair


def test_depth_costs_no_counting() -> None:
    """Equal layers are one object: their body is walked once, whatever the depth."""

    class Tally(Counter):
        calls = 0

        def linear(self, x, w):  # type: ignore[no-untyped-def]
            Tally.calls += 1
            return super().linear(x, w)

    from archspec.compiler.flops import B, T, _Booked

    seen = []
    for n in (2, 126):
        Tally.calls = 0
        m = small(f"decoder.layers={n}")
        m.forward(Tally(), _Booked(m), (B, T))
        seen.append(Tally.calls)
    assert seen[0] == seen[1] == 7 + 1


def test_parameters_are_the_sum_of_the_stored_tensors() -> None:
    for name in ("gpt2", "bert-base", "transformer-base", "smollm2-135m", "all-minilm-l6-v2"):
        m = load(name).model
        assert total(m) == sum(t.size for t in m.tensors())


@pytest.mark.parametrize("name", [*TINY, *GROWING])
def test_all_work_is_booked_under_a_component_that_has_a_name(name: str) -> None:
    flops = count_flops(tiny(name))
    assert "" not in flops.dense
    assert set(flops.dense) == set(flops.causal)
    assert "" not in count_parameters(tiny(name)).by_component


# ---------------------------------------------------------------------------------------------------------------- pairs


def brute(mask: Mask, new: int, past: int) -> int:
    def sees(i: int, j: int) -> bool:
        if mask.kind == "causal" and j > i:
            return False
        if mask.window is not None and not (
            i - j < mask.window if mask.kind == "causal" else abs(i - j) <= mask.window
        ):
            return False
        return mask.chunk is None or i // mask.chunk == j // mask.chunk

    return sum(sees(i, j) for i in range(past, past + new) for j in range(past + new))


limits = st.one_of(st.none(), st.integers(1, 12))


@given(st.integers(0, 20), st.integers(0, 20), limits)
def test_causal_pairs_are_those_of_the_mask(new: int, past: int, limit: int | None) -> None:
    assert pairs(Mask("causal", window=limit), new, past) == brute(Mask("causal", window=limit), new, past)
    assert pairs(Mask("causal", chunk=limit), new, past) == brute(Mask("causal", chunk=limit), new, past)


@given(st.integers(0, 25), limits)
def test_two_sided_pairs_are_those_of_the_mask(n: int, limit: int | None) -> None:
    assert pairs(Mask("full", window=limit), n, 0) == brute(Mask("full", window=limit), n, 0)
    assert pairs(Mask("full", chunk=limit), n, 0) == brute(Mask("full", chunk=limit), n, 0)


def test_pairs_by_hand() -> None:
    assert pairs(Mask("causal"), 4, 6) == 34
    assert pairs(Mask("causal", window=3), 10, 0) == 27
    assert pairs(Mask("causal"), 10, 0) == 55


# ------------------------------------------------------------------------------------------------------------ the report


def test_lengths_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="1,024 rows"):
        load("gpt2").count(length=1025)
    with pytest.raises(UsageError, match="no past"):
        load("bert-base").count(past=3)
    for name in ("gpt2", "bert-base"):
        with pytest.raises(UsageError, match="no encoder beside a decoder"):
            load(name).count(source_length=3)


@pytest.mark.parametrize("options", [["--by", "path"], ["--format", "json"], ["--format", "csv"]])
def test_formulas_are_explained_where_there_is_a_place_for_them(options: list[str]) -> None:
    done = CliRunner().invoke(command, ["gpt2", "--explain", *options])
    assert isinstance(done.exception, UsageError)
    assert "--explain adds formulas to the tables of components" in str(done.exception)
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("asked", "option", "most"),
    [
        ({"length": 1025}, "length", 1024),
        ({"length": 100, "past": 1000}, "length", 24),
        ({"past": 2000}, "past", 1023),
        ({"length": 100, "past": 2000}, "past", 924),
    ],
)
def test_a_length_that_does_not_fit_is_answered_with_one_that_does(
    asked: dict[str, int], option: str, most: int
) -> None:
    gpt2 = load("gpt2")
    with pytest.raises(UsageError) as caught:
        gpt2.count(**asked)  # type: ignore[arg-type]
    assert caught.value.remedy == f"--{option} at most {most:,}"
    gpt2.count(**{**asked, option: most})  # type: ignore[arg-type]


@pytest.mark.parametrize(("past", "said"), [(63, ""), (64, "note: the spec's context ends at 64 tokens, and 65 are")])
def test_what_is_past_the_context_is_counted_with_a_note(past: int, said: str, tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    done = CliRunner().invoke(command, [str(path), "--length", "1", "--past", str(past), "--format", "json"])
    assert json.loads(done.stdout)["past"] == past
    assert done.stderr.startswith(said)
    assert bool(done.stderr) == bool(said)


@pytest.mark.parametrize(
    ("overrides", "names"), [((), "key, value"), ((LATENTS,), "latent, rope key")], ids=["heads", "latents"]
)
def test_the_cache_says_which_tensors_it_keeps(overrides: tuple[str, ...], names: str) -> None:
    (cache,) = (t for t in tables(count(small(*overrides))) if t.title.startswith("KV cache"))
    assert cache.notes == [f"kept for each token: tensors × heads × width; the tensors are {names}"]
    assert [row[-1] for row in cache.rows if row] == ["1 × 1 × 24 + 1 × 1 × 8" if overrides else "2 × 2 × 16"]


def told(counts: Counts) -> dict[str, str]:
    """The tables of a report as they are printed, by the first words of their titles."""
    return {t.title.split(":")[0].split(" in ")[0]: t.text() for t in tables(counts)}


def test_layers_of_which_the_same_is_said_are_one_row() -> None:
    """Windows change the cache and no parameter; a wider ffn every third layer changes parameters and no cache."""
    pattern = "decoder.layers=[{repeat: 3, layers: [{attention: {window: 8}}, {attention: {window: 8}}, {}]}]"
    windows = told(count(small(pattern)))
    assert windows["Layers"].splitlines()[2].split()[:2] == ["0–8", "9"]
    assert len(windows["Layers"].splitlines()) == 3
    rows = [line.split() for line in windows["KV cache"].splitlines()[2:4]]
    assert [row[:2] for row in rows] == [["0–1,", "3–4,"], ["2,", "5,"]]
    assert [row[3] for row in rows] == ["6", "3"]
    wide = told(count(small("decoder.layers=[{repeat: 5, layers: [{ffn: {width: 8}}, {}]}]")))
    assert [line.split("  ")[0] for line in wide["Layers"].splitlines()[2:]] == ["0, 2, …, 8", "1, 3, …, 9"]
    assert wide["KV cache"].splitlines()[2].split()[:2] == ["0–9", "10"]


def test_rows_of_layers_add_up_whatever_they_are_made_of() -> None:
    """The JSON has runs of equal layers, the table what is alike: as many layers, parameters and bytes."""
    for name in ("gemma-2-9b", "deepseek-v3", "t5-small", "albert-base", "gpt-oss-20b"):
        counts = load(name).count(length=64)
        (layers,) = (t for t in tables(counts) if t.title == "Layers")
        runs = counts.parameters.layers
        assert sum(row[1] for row in layers.rows if row) == sum(run.count for run in runs)  # type: ignore[misc]
        assert sum(row[-1] for row in layers.rows if row) == sum(
            run.count * run.total for run in runs if not run.shared
        )  # type: ignore[misc]
        for cache in (t for t in tables(counts) if t.title.startswith("KV cache")):
            last = cache.rows[-2:] if None not in cache.rows else cache.rows[: cache.rows.index(None)]
            assert sum(row[3] for row in last if row) == counts.cache_bytes  # type: ignore[misc]


def test_after_a_past_nothing_is_trained() -> None:
    step, whole = (told(load("gpt2").count(length=1, past=past)) for past in (9, 0))
    for table in ("FLOPs of one forward pass", "Memory"):
        assert "training" in whole[table]
        assert "training" not in step[table]
    memory = load("gpt2").count(length=1, past=9).record()["memory"]
    assert {key for key, n in memory.items() if n is None} == memory.keys() - {"weights", "inference"}


@pytest.mark.parametrize(
    ("spec", "flags", "said"),
    [
        ("gemma-2-9b", (), "the spec's dtype is bfloat16: --precision bf16"),
        ("gemma-2-9b", ("--precision", "fp32"), None),
        ("gemma-2-9b", ("--precision", "int4"), None),
        ("gemma-2-9b", ("--precision", "bf16"), None),
        ("gpt2", (), None),
    ],
)
def test_a_spec_of_another_dtype_says_so_where_no_precision_was_asked_for(
    spec: str, flags: tuple[str, ...], said: str | None
) -> None:
    printed = CliRunner().invoke(command, [spec, *flags]).stdout
    assert ("the spec's dtype" in printed) == bool(said)
    assert said is None or printed.rstrip().splitlines()[-1] == said


def test_json_is_plain_integers() -> None:
    record = load("gpt2").count(batch=2, length=5, past=7, precision="fp16").record()
    assert record["name"] == "gpt2"
    assert (record["batch"], record["length"], record["past"]) == (2, 5, 7)
    assert record["precision"] == {"name": "fp16", "compute": "fp16", "block": None, "symmetric": None, "keep": []}
    p, f = record["parameters"], record["flops"]
    for n in (p["total"], p["embedding"], p["non_embedding"], p["active"], f["forward"]["dense"]):
        assert type(n) is int
    assert p["embedding"] + p["non_embedding"] == p["total"]
    assert f["training"] is None, "there is no training after a past"
    assert record["kv_cache"]["bytes"] == 2 * 12 * 2 * (12 * 64) * (5 + 7) * 2
    assert sum(p["by_component"].values()) == p["total"]


@pytest.mark.parametrize(
    ("overrides", "unfused"),
    [
        (("norm=layernorm", "decoder.ffn={kind: mlp, width: 256, activation: gelu, bias: true}"), 0),
        (
            ("norm=layernorm", "decoder.ffn={kind: mlp, width: 256, activation: gelu, bias: true}", LATENTS),
            2 * 2 * 48 * 64 * 4,
        ),  # on CPU, attention gives heads one after the other where its queries are put together so: merging them copies
        (
            ("norm=layernorm", "decoder.ffn={kind: mlp, width: 256, activation: gelu, bias: true}", DISTANCES),
            2 * (2 * 2 * 48 * 64 * 4 - 2 * 4 * 48 * 4),
        ),  # on CPU, attention whose bias has a gradient is not fused: it keeps q and k scaled as well, and no number a row
        (
            (),
            5 * 2 * 48 * 64 * 4,
        ),  # on CPU, torch's RMSNorm is not fused and keeps the normed value of its five norms as well
    ],
)
def test_activations_are_what_autograd_saves(overrides: tuple[str, ...], unfused: int) -> None:
    """The witness is torch: unique bytes that the saved-tensor hooks see, weights aside, within 1 %."""
    import torch

    from archspec.exporters.torch.module import build

    spec = resolve_text(SMALL, overrides=overrides).spec
    module = build(lower(spec), spec.init).train()
    weights = {p.untyped_storage().data_ptr() for p in module.parameters()}
    saved: dict[int, int] = {}

    def pack(t: torch.Tensor) -> torch.Tensor:
        at = t.untyped_storage().data_ptr()
        if at not in weights and t.is_floating_point():
            saved[at] = t.untyped_storage().nbytes()
        return t

    ids = torch.randint(0, 1000, (2, 48))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        loss = torch.nn.functional.cross_entropy(module(ids).flatten(0, 1), ids.flatten())
    assert loss.requires_grad
    counted = count(lower(spec), batch=2, length=48).training
    assert counted
    assert counted.activations + unfused == pytest.approx(sum(saved.values()), rel=0.01)
