"""What weights become in a narrower precision, that a graph with them is right, and what it costs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
from exported import companions
from onnx_cases import random_module, stored, verified
from tiny import TINY, tiny
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from archspec.cli.main import cli
from archspec.compiler.precision import Blocks, Compute, Name, Precision, precision, storage
from archspec.errors import BudgetError, UsageError, VerificationError, WeightsError
from archspec.exporters.onnx.answers import loaded
from archspec.exporters.onnx.beside import Beside, write_beside
from archspec.exporters.onnx.emit import Target, emit, parts
from archspec.exporters.onnx.export import ExportSummary, export
from archspec.exporters.onnx.measures import measured
from archspec.exporters.onnx.passage import TEXT
from archspec.exporters.onnx.quantise import dequantise_rows, quantise_rows
from archspec.exporters.onnx.rounded import rounded
from archspec.exporters.onnx.trial import NO_BFLOAT16
from archspec.exporters.onnx.twin import Exact
from archspec.exporters.onnx.words import Part
from archspec.exporters.runtime.device import cuda
from archspec.exporters.torch.module import Transformer
from archspec.ops.model import Model

#: Whatever it costs: tiny random models are no measure of that.
ANY = 1e9
FORMS = [Blocks(bits, size, symmetric) for bits in (4, 8) for size in (16, 128) for symmetric in (True, False)]  # type: ignore[arg-type]


def normal(*shape: int, seed: int = 0, scale: float = 0.05) -> np.ndarray:  # type: ignore[type-arg]
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * np.float32(scale)


def exported(
    name: str, out: Path, what: Precision, *overrides: str, target: Target = "onnx", budget: float | None = ANY
) -> ExportSummary:
    """The tiny model of that name, 64 wide, verified."""
    model = tiny(name, "d_model=64", *overrides)
    module = random_module(model)
    return export(
        model,
        stored(module),
        "x: 1\n",
        out,
        module=module,
        precision=what,
        target=target,
        context_length=64,
        budget=budget,
    )


# ------------------------------------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize("blocks", FORMS, ids=str)
def test_no_other_code_is_nearer_to_a_weight(blocks: Blocks) -> None:
    """Every code of a block is tried by hand."""
    w = normal(24, 256)
    q = quantise_rows(w, blocks)
    got = dequantise_rows(q, blocks)
    scales, zeros = (np.repeat(x.astype(np.float32), blocks.size, 1) for x in (q.scales, q.zeros))
    lowest = 1 if blocks.bits == 8 and blocks.symmetric else 0  # -127 to 127
    every = np.stack([(code - zeros) * scales for code in range(lowest, 1 << blocks.bits)])
    nearest = np.abs(every - w).min(0)
    assert np.abs(np.abs(got - w) - nearest).max() < 1e-6


@pytest.mark.parametrize("size", [16, 128])
def test_eight_bits_are_within_half_a_scale(size: int) -> None:
    w = normal(24, 256)
    for symmetric in (True, False):
        q = quantise_rows(w, Blocks(8, size, symmetric))
        half = np.repeat(q.scales, size, 1) / 2
        assert (np.abs(dequantise_rows(q, Blocks(8, size, symmetric)) - w) <= half * (1 + 1e-4)).all()


def test_a_symmetric_block_of_four_bits_uses_all_sixteen_codes() -> None:
    """-8 to 7, fitted: of ramps from -8 to 7 nothing is lost, nor of ramps from 8 to -7, whose scale is negative."""
    ramp = np.arange(-8, 8, dtype=np.float32)
    w = np.stack([ramp, -ramp, 3 * ramp])
    q = quantise_rows(w, Blocks(4, 16))
    assert np.array_equal(dequantise_rows(q, Blocks(4, 16)), w)
    assert q.scales[:, 0].tolist() == [1, -1, 3]
    assert q.codes[0].tolist() == list(range(16))


def test_an_asymmetric_block_takes_weights_on_one_side_of_zero() -> None:
    w = np.arange(16, dtype=np.float32)[None] * 0.5
    for symmetric, worst in ((False, 0.0), (True, 0.2)):
        blocks = Blocks(4, 16, symmetric)
        difference = np.abs(dequantise_rows(quantise_rows(w, blocks), blocks) - w).max()
        assert (difference == 0) if not symmetric else difference > worst


def test_zeros_stay_zeros_and_rows_do_not_see_each_other() -> None:
    for blocks in FORMS:
        w = normal(6, 256)
        w[2] = 0
        whole = quantise_rows(w, blocks)
        assert not dequantise_rows(whole, blocks)[2].any()
        apart = [quantise_rows(w[at : at + 2], blocks) for at in (0, 2, 4)]
        for part, joined in zip(whole, zip(*apart, strict=True), strict=True):
            assert np.array_equal(part, np.concatenate(joined))


@pytest.mark.parametrize("kind", [np.float16, "bfloat16"])
def test_codes_are_chosen_for_scales_as_they_are_stored(kind: str) -> None:
    """Rounding the scales afterwards would be further off."""
    import ml_dtypes

    dtype = np.dtype(ml_dtypes.bfloat16 if kind == "bfloat16" else np.float16)
    w, blocks = normal(64, 256), Blocks(8, 32)
    mine = dequantise_rows(quantise_rows(w, blocks, dtype), blocks)
    late = quantise_rows(w, blocks)
    late = dequantise_rows(late._replace(scales=late.scales.astype(dtype)), blocks)
    assert np.abs(mine - w).mean() < np.abs(late - w).mean()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (np.nan, r"infinite or none\.\n  = these weights are damaged"),
        (np.inf, r"infinite or none\.\n  = these weights are damaged"),
        (3.4e38, r'that no block of integers stands for: 3\.4e\+38\.\n  = say keep=\["here"\]$'),
    ],
)
def test_what_is_not_a_number_or_too_large_a_one_has_no_code(wrong: float, told: str) -> None:
    w = normal(4, 32)
    w[1, 3] = wrong
    with pytest.raises(WeightsError, match=rf"here\.weight holds numbers (that are )?{told}"):
        quantise_rows(w, Blocks(4, 32), names=["here.weight"])


@pytest.mark.parametrize("target", ["onnx", "ort"])
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("gpt2", "decoder.layers.1.attention.k.weight"),
        ("experts", "decoder.layers.0.ffn.expert.up.weight"),
        ("moe", "decoder.layers.1.ffn.expert.up.weight"),
    ],
)
def test_whoever_keeps_what_is_named_can_go_on(name: str, path: str, target: Target, tmp_path: Path) -> None:
    """Also where several tensors have become one: queries, keys and values, a gate and what it opens for."""
    model = tiny(name, "d_model=64")
    module = random_module(model)
    with torch.no_grad():
        module.tensor(path)[..., 3] = 3.4e38
    with pytest.raises(WeightsError, match="holds numbers") as raised:
        written(model, module, tmp_path / "a", target)
    kept = tuple(re.findall(r"--keep (\S+)", raised.value.remedy or ""))
    assert path.removesuffix(".weight") in kept
    written(model, module, tmp_path / "b", target, *kept)


def written(model: Model, module: Transformer, out: Path, target: Target, *keep: str) -> None:
    what = precision("int4", block=16, keep=keep)
    export(model, stored(module), "x: 1\n", out, verify=False, precision=what, target=target)


# ---------------------------------------------------------------------------------------------------- which, and how many


def test_what_is_in_blocks_and_why_the_rest_is_not() -> None:
    """GPT-2: 6 matrices in each of 2 layers and the table; 2 norms and 6 biases a layer and a norm, each norm with 2 vectors."""
    plan = storage(tiny("gpt2", "d_model=64"), precision("int4", block=16))
    assert str(plan) == "13 of 36 tensors are int4; 1: tables of positions, types and distances; 22: vectors"


def test_routers_and_odd_widths_stay() -> None:
    """Experts are 16 wide inside, so their second matrices are; the latent is 20 wide and so are the experts' first ones."""
    moe = storage(tiny("moe", "d_model=64"), precision("int8", block=32))
    assert {path for path, why in moe.left.items() if why == "routers"} == {
        "decoder.layers.1.ffn.router.weight", "decoder.layers.2.ffn.router.weight", "decoder.layers.2.ffn.router.bias",
    }  # fmt: skip
    narrow = {path.split(".", 3)[3] for path, why in moe.left.items() if why == "16 wide, no multiple of 32"}
    assert narrow == {"ffn.expert.down.weight"}
    graph = emit(tiny("moe", "d_model=64"), "logits", pytest.fail, precision=precision("int8", block=32)).graph
    routers = [v.dtype.name for n, v in graph.initializers.items() if "router" in n and v.dtype]
    assert routers == ["FLOAT"] * 3


@pytest.mark.parametrize(
    ("pattern", "kept"),
    [
        ("head", {"decoder.embedding.tokens.weight"}),  # tied: one tensor
        ("decoder.layers.0.*", {f"decoder.layers.0.{n}" for n in ("attention", "ffn")}),
        ("*.ffn.up", {f"decoder.layers.{i}.ffn.up.weight" for i in (0, 1)}),
        ("decoder.layers.1.attention.q", {"decoder.layers.1.attention.q.weight"}),
    ],
)
def test_patterns_keep_weights_by_path_part_and_tie(pattern: str, kept: set[str]) -> None:
    model = tiny("gpt2", "d_model=64")
    plan = storage(model, precision("int4", block=16, keep=(pattern,)))
    matrices = {
        path for path, why in plan.left.items() if why == "kept" and path.endswith(".weight") and "norm" not in path
    }
    assert matrices
    assert all(any(path.startswith(k) for k in kept) for path in matrices)
    assert all(any(path.startswith(k) for path in matrices) for k in kept)


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ({"keep": ("heed",)}, r"No weight is called heed\.\n.*did you mean head"),
        ({"keep": ("decoder.layers.7",)}, r"did you mean decoder\.layers\.\d"),
        ({"block": 24}, "A block of 24 weights has no kernels"),
        ({"name": "fp16", "block": 32}, "fp16 has no blocks, so a block size would do nothing"),
        ({"name": "fp32", "symmetric": False, "keep": ("head",)}, "asymmetric and weights to keep would do nothing"),
    ],
)
def test_what_does_not_go_together_is_refused(said: dict, match: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(UsageError, match=match):
        storage(tiny("gpt2"), precision(**{"name": "int4", **said}))


# ------------------------------------------------------------------------------------------------------ graphs are right


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("target", ["onnx", "ort"])
def test_every_tiny_model_is_right_in_every_precision(name: str, target: Target, tmp_path: Path) -> None:
    """Its float32 twin computes what PyTorch does with the weights as they are stored, and what is not coarse is close.

    Of int8 and int4 each target has every other model.
    """
    turn = (list(TINY).index(name) + (target == "ort")) % 2
    coarse = precision("int8", block=16) if turn else precision("int4", block=16, symmetric=False)
    for what in (precision("fp16"), coarse):
        summary = exported(name, tmp_path / what.name, what, target=target)
        assert summary.verification
        assert summary.verification.difference < summary.verification.tolerance
        (measures,) = summary.verification.measures
        if what.name == "fp16" and name not in (
            "mixer",
            "gates",
            "moe",
        ):  # a near tie of their experts goes another way
            assert measures.divergence < 1e-3
    if target == "onnx":
        for file in parts(tiny(name)).values():
            onnx.checker.check_model(tmp_path / coarse.name / file, full_check=True)


@pytest.mark.parametrize("what", ["bf16", "int4"])
def test_bfloat16_is_verified_by_its_twin_where_nothing_runs_it(what: Name, tmp_path: Path) -> None:
    how = precision("bf16") if what == "bf16" else precision("int4", block=16, compute="bf16")
    for name in ("sinks", "experts"):
        summary = exported(name, tmp_path / name, how)
        assert summary.verification
        assert summary.verification.remark == (None if cuda().usable else NO_BFLOAT16)
        graph = onnx.load(tmp_path / name / "logits.onnx", load_external_data=False).graph
        assert graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT
        assert onnx.TensorProto.BFLOAT16 in {i.data_type for i in graph.initializer}


def test_a_wrong_graph_does_not_hide_behind_coarse_weights(tmp_path: Path) -> None:
    """A scale of the scores that is off by 2 in 100 costs less than int4 does, and is found."""
    model, what = tiny("gpt2", "d_model=64"), precision("int4", block=16)
    exported("gpt2", tmp_path / "out", what)
    coarse = loaded(model, rounded(model, stored(random_module(model)), storage(model, what)))
    twins: dict[Part, Exact] = {part: {} for part in parts(model)}
    verified(tmp_path / "out", model, coarse, twins=twins)
    proto = onnx.load(tmp_path / "out/logits.onnx", load_external_data=False)
    node = next(n for n in proto.graph.node if n.op_type == "Attention")
    next(a for a in node.attribute if a.name == "scale").f *= 1.02
    onnx.save(proto, tmp_path / "out/logits.onnx")
    with pytest.raises(VerificationError, match=r"logits\.onnx: ONNX Runtime differs from PyTorch"):
        verified(tmp_path / "out", model, coarse, twins=twins)


@pytest.mark.parametrize("norm", ["rmsnorm", "layernorm", "{kind: layernorm, eps_outside: true}"])
def test_squares_in_half_precision_do_not_overflow(norm: str, tmp_path: Path) -> None:
    """Activations of some 2,000: their squares are beyond 65,504, and so is their sum."""
    summary = exported("llama", tmp_path / "out", precision("fp16"), f"norm={norm}", "embedding.scale=8000")
    assert summary.verification
    assert summary.verification.measures[0].divergence < 1e-3


# ------------------------------------------------------------------------------------------------------- what it costs


def test_divergence_by_hand() -> None:
    """p = (1/2, 1/2) and q = (3/4, 1/4): Σ p ln(p/q) = ln 2 - ln(3)/2. A quarter turn: 1 - cosine = 1."""
    labels, vectors = tiny("classifier"), tiny("pooler")
    two = measured(labels, "two", np.log([[0.5, 0.5], [0.9, 0.1]]), np.log([[0.75, 0.25], [0.9, 0.1]]))
    kl = math.log(2) - math.log(3) / 2
    assert (two.divergence, two.worst) == (pytest.approx(kl / 2), pytest.approx(kl))
    assert (two.positions, two.agreement, two.clear, two.clear_agreement) == (2, 1.0, 1, 1.0)
    score = measured(tiny("classifier", "head.labels=1"), "score", np.array([[0.0]]), np.array([[math.log(3)]]))
    assert (score.divergence, score.difference) == (pytest.approx(kl), pytest.approx(math.log(3)))
    turned = measured(vectors, "one", np.array([[1.0, 0.0]]), np.array([[0.0, 3.0]]))
    assert (turned.divergence, turned.difference, turned.agreement) == (pytest.approx(1.0), 3.0, None)


def test_finer_blocks_cost_less(tmp_path: Path) -> None:
    whats = (precision("int8"), precision("int4", block=16), precision("int4", block=64))
    costs = [
        checked.measures[0].divergence
        for i, what in enumerate(whats)
        if (checked := exported("llama", tmp_path / str(i), what).verification)
    ]
    assert costs == sorted(costs)
    assert costs[0] < costs[1] / 20


def test_a_budget_is_kept_or_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match=r"int4 in symmetric blocks of 16.*where 1e-05 is allowed\.\n") as error:
        exported("gpt2", tmp_path / "out", precision("int4", block=16), budget=1e-5)
    _, measures, remedy = str(error.value).splitlines()
    assert measures.startswith("  96 random tokens: KL divergence")
    assert remedy.startswith("  = try precision int8")
    assert error.value.exit_code == 3
    assert not list(tmp_path.iterdir())
    exported("gpt2", tmp_path / "out", precision("fp16"), budget=1e-5)


@pytest.mark.parametrize("what", ["fp32", "int4"])
def test_a_budget_that_nothing_is_held_to_is_refused(what: Name, tmp_path: Path) -> None:
    model = tiny("gpt2")
    with pytest.raises(UsageError, match="would do nothing"):
        export(
            model, stored(random_module(model)), "x: 1\n", tmp_path / "out", precision=precision(what), budget=0.1,
            verify=what == "fp32",
        )  # fmt: skip


def test_a_weight_that_a_type_has_no_room_for_is_named(tmp_path: Path) -> None:
    model = tiny("gpt2")
    module = random_module(model)
    with torch.no_grad():
        module.get_parameter("decoder.layers.1.ffn.up.weight")[3, 5] = -70000.0
    with pytest.raises(
        WeightsError, match=r"layers\.1\.ffn\.up\.weight holds 70000, and float16 ends at 65504"
    ) as error:
        export(model, stored(module), "x: 1\n", tmp_path / "out", precision=precision("fp16"))
    assert "--precision bf16" in str(error.value.remedy)
    assert not list(tmp_path.iterdir())
    export(model, stored(module), "x: 1\n", tmp_path / "out", precision=precision("bf16"), budget=ANY)


@pytest.mark.parametrize("what", ["fp32", "bf16", "int8", "int4"])
def test_weights_that_are_no_numbers_are_named_and_nothing_is_advised_that_would_not_help(
    what: Name, tmp_path: Path
) -> None:
    model = tiny("llama", "d_model=64")
    module = random_module(model)
    with torch.no_grad():
        module.get_parameter("decoder.layers.1.ffn.up.weight")[3, 5] = torch.nan
    with pytest.raises(
        WeightsError, match=r"layers\.1\.ffn\.up\.weight holds numbers that are infinite or none"
    ) as error:
        export(model, stored(module), "x: 1\n", tmp_path / "out", precision=precision(what))
    assert error.value.remedy == "these weights are damaged"
    with torch.no_grad():
        module.get_parameter("decoder.layers.1.ffn.up.weight")[3, 5] = 3.4e38
    with pytest.raises(WeightsError) as error:
        export(model, stored(module), "x: 1\n", tmp_path / "out", precision=precision(what))
    advice = {"bf16": "say --precision fp32", "int4": "say --keep"}
    assert str(error.value.remedy).startswith(advice.get(what, "are they damaged"))


def test_outputs_past_the_end_of_a_type_are_told_as_such(tmp_path: Path) -> None:
    model = tiny("llama", "d_model=64")
    module = random_module(model)
    with torch.no_grad():
        module.get_parameter("decoder.layers.1.ffn.up.weight").mul_(1e6)
    with pytest.raises(BudgetError, match="somewhere fp16 ends") as error:
        export(model, stored(module), "x: 1\n", tmp_path / "out", precision=precision("int8", compute="fp16"))
    assert error.value.remedy == "say --compute bf16, or fp32"


def altered(folder: Path, name: str) -> None:
    """Negate the numbers of a stored tensor, which a graph holds in half precision."""
    for proto in (onnx.load(folder / file, load_external_data=False) for file in ("model.onnx", "logits.onnx")):
        for tensor in proto.graph.initializer:
            if tensor.name == name:
                place = {e.key: int(e.value) for e in tensor.external_data if e.key in ("offset", "length")}
                data = np.memmap(folder / "model.onnx.data", np.uint16, "r+", place["offset"], place["length"] // 2)
                data ^= 0x8000
                return
    raise AssertionError(name)


@pytest.mark.parametrize("name", ["rotary.0.cos", "rotary.0.sin", "decoder.final_norm.weight"])
@pytest.mark.parametrize(("what", "compute"), [("fp16", None), ("int4", "fp16")])
def test_what_only_the_graph_of_steps_reads_is_compared(
    name: str, what: Name, compute: Compute | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Angles that fused attention looks up are constants of its graph alone, and rounded."""

    def tampered(folder: Path, *others: Any) -> Mapping[str, str]:
        left_out = write_beside(folder, *others)
        altered(folder, name)
        return left_out

    monkeypatch.setattr("archspec.exporters.onnx.export.write_beside", tampered)
    model = tiny("llama", "d_model=64")
    with pytest.raises(VerificationError):
        export(
            model, stored(random_module(model)), "x: 1\n", tmp_path / "out", target="ort", context_length=64,
            precision=precision(what, compute=compute), budget=ANY,
        )  # fmt: skip
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("what", ["fp16", "bf16"])
def test_a_long_table_of_angles_is_rounded_once(what: Name, tmp_path: Path) -> None:
    """From float64: of 131,072 numbers some would be others by way of float32."""
    model = tiny("llama", "decoder.attention.head_dim=64", "decoder.attention.position={kind: rope, theta: 1e5}")
    module = random_module(model)
    export(
        model, stored(module), "x: 1\n", tmp_path / "out", target="ort", context_length=4096, precision=precision(what),
        budget=ANY,
    )  # fmt: skip
    proto = onnx.load(tmp_path / "out/model.onnx")
    held = next(t for t in proto.graph.initializer if t.name == "rotary.0.cos")
    turns = np.arange(4096)[:, None] * 1e5 ** -(np.arange(0, 64, 2) / 64)
    dtype = np.float16 if what == "fp16" else ml_dtypes.bfloat16
    assert np.mean(onnx.numpy_helper.to_array(held) != np.cos(turns).astype(dtype)) < 1e-3


@pytest.mark.parametrize(("name", "target"), [("llama", "ort"), ("gpt2", "onnx"), ("seq2seq", "ort"), ("bert", "onnx")])
def test_steps_are_measured_beside_whole_texts(name: str, target: Target, tmp_path: Path) -> None:
    """As the files are: 8 tokens one by one after others, four rows of them, and each call's last logits."""
    model = tiny(name)
    summary = export(
        model, stored(random_module(model)), "x: 1\n", tmp_path / "out", target=target, precision=precision("fp16"),
        context_length=32, budget=ANY,
    )  # fmt: skip
    checked = summary.verification
    assert checked is not None
    if name == "bert":
        assert checked.steps == ()
        return
    (steps,) = checked.steps
    assert steps.on.endswith("random tokens, the last 8 one by one")
    assert steps.positions == 4 * 9
    assert 0 < steps.difference < 0.01 * steps.spread
    assert steps.divergence < 1e-5


def test_text_is_read_where_there_is_a_tokenizer_and_binds(tmp_path: Path) -> None:
    words = sorted(set(TEXT.split()))[:60]
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(["?", *words])}, unk_token="?"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    model = tiny("llama", "d_model=64", "context_length=300")
    module = random_module(model)
    summary = export(
        model, stored(module), "x: 1\n", tmp_path / "out", module=module, precision=precision("int8"), budget=ANY,
        context_length=300, beside=Beside(companions(tmp_path / "tokenizer.json")),
    )  # fmt: skip
    manifest = json.loads((tmp_path / "out/archspec.json").read_text())
    assert [m["on"] for m in manifest["verification"]["measures"]] == ["256 random tokens", "256 tokens of text"]
    assert manifest["precision"] == "int8"
    assert manifest["blocks"] == {"bits": 8, "size": 32, "symmetric": True, "keep": [], "stored": summary.stored}


# ----------------------------------------------------------------------------------------------------------- the command


def test_the_command_says_what_it_stored_and_what_it_cost(
    example: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """2 layers of q, k, v, o, gate, up and down, and the table; 2 norms a layer and one. 172 = 5.4 · 32: down is too wide."""
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "example.yaml").write_text(example)
    spec, out = str(tmp_path / "example.yaml"), str(tmp_path / "out")

    def said(*flags: str) -> str:
        cli.main(["export", spec, "-o", out, *flags], standalone_mode=False)
        return capsys.readouterr().out

    told = said("--precision", "int8", "--target", "ort", "--keep", "decoder.layers.0.ffn.up", "--asymmetric")
    assert "12 of 20 tensors are int8; 5: vectors; 1: kept; 2: 172 wide, no multiple of 32" in told
    assert "numbers agree with PyTorch's in float32, with the weights as they are stored" in " ".join(told.split())
    cost = told[told.index("What the precision costs, as KL divergence in nats") :].splitlines()
    assert cost[1].split() == ["mean", "allowed", "worst", "token", "same", "choice", "where", "sure"]
    assert cost[2].startswith("256 random tokens  ")
    assert cost[2].split()[4] == "0.05", "there is no other text, so this one decides"
    assert cost[3].startswith("256 random tokens, the last 8 one by one  ")
    checked = json.loads((tmp_path / "out/archspec.json").read_text())["verification"]
    assert cost[2].split()[3] == f"{checked['measures'][0]['divergence']:.2g}"
    with pytest.raises(BudgetError, match="where 1e-09 is allowed"):
        said("--precision", "int4", "--budget", "1e-9", "--force")
    assert json.loads((tmp_path / "out/archspec.json").read_text())["precision"] == "int8"  # the earlier one stands
    with pytest.raises(UsageError, match="fp32 has no blocks, so a block size would do nothing"):
        said("--block", "64", "--force")
