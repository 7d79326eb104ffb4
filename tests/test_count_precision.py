"""Bytes of a count in every precision, against the places in the file that exported graphs read."""

from __future__ import annotations

import csv
import io
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner
from onnx_cases import random_module, stored
from tiny import GROWING, TINY, tiny

from archspec.api import load
from archspec.cli.main import cli
from archspec.compiler.count import Counts, count
from archspec.compiler.precision import FP32, Precision, Storage, precision, storage
from archspec.errors import UsageError
from archspec.exporters.onnx.emit import Target
from archspec.exporters.onnx.export import export
from archspec.ops.base import Tensor
from archspec.ops.model import Model

CONTEXT = 24
PRECISIONS = [
    precision("fp32"),
    precision("fp16"),
    precision("bf16"),
    precision("int8", block=16, symmetric=False, compute="bf16"),
    precision("int4"),
    precision("int4", block=16, symmetric=False),
]


def places(folder: Path) -> dict[tuple[int, int], set[str]]:
    """Where the graphs of a folder read their weights: offset and length -> the initializers that stand for these bytes."""
    found: dict[tuple[int, int], set[str]] = {}
    for file in folder.glob("*.onnx"):
        for tensor in onnx.load(file, load_external_data=False).graph.initializer:
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                at = {entry.key: entry.value for entry in tensor.external_data}
                found.setdefault((int(at["offset"]), int(at["length"])), set()).add(tensor.name)
    starts = sorted(found)
    assert all(a + n <= b for (a, n), (b, _) in pairwise(starts)), "no two overlap"
    return found


def lengths(model: Model, numbers: Precision, target: Target, out: Path) -> dict[str, int]:
    """Bytes by the name of a tensor, of graphs whose weights are not written: nothing reads one."""
    export(model, pytest.fail, "x: 1\n", out, precision=numbers, target=target, context_length=CONTEXT, graph_only=True)  # type: ignore[arg-type]
    return {min(names): n for (_, n), names in places(out).items()}


def counted(model: Model, numbers: Precision = FP32) -> Counts:
    return count(model, length=8, precision=numbers)


def angles(held: dict[str, int]) -> int:
    return sum(n for name, n in held.items() if name.startswith("rotary."))


@pytest.mark.parametrize("numbers", PRECISIONS, ids=str)
@pytest.mark.parametrize("name", [name for name in TINY if name != "parallel"])
def test_weights_are_those_of_the_file(name: str, numbers: Precision, tmp_path: Path) -> None:
    """Both targets; only the zeros of asymmetric int4 lie otherwise in one of them."""
    model, blocks = tiny(name, "d_model=64"), numbers.blocks
    ort = lengths(model, numbers, "ort", tmp_path / "ort")
    assert sum(ort.values()) - angles(ort) == counted(model, numbers).weight_bytes
    standard = lengths(model, numbers, "onnx", tmp_path / "onnx")
    if blocks and blocks.bits == 4 and not blocks.symmetric:
        standard = {name: n for name, n in standard.items() if ".zero_point" not in name}
        numbers = numbers.replaced(blocks=blocks.replaced(symmetric=True))
    assert sum(standard.values()) == counted(model, numbers).weight_bytes


@pytest.mark.parametrize("name", ["gpt2", "llama", "moe", "t5", "latents"])
@pytest.mark.parametrize("target", ["onnx", "ort"])
@pytest.mark.parametrize("block", [64, 128])
def test_what_is_kept_and_what_is_128_wide(name: str, target: Target, block: int, tmp_path: Path) -> None:
    model = tiny(name, "d_model=128")
    numbers = precision("int4", block=block, compute="fp16", keep=("decoder.layers.0.*", "decoder.embedding.tokens"))
    held = lengths(model, numbers, target, tmp_path / "out")
    assert sum(held.values()) - angles(held) == counted(model, numbers).weight_bytes
    assert (
        counted(model, numbers).weight_bytes
        > counted(model, precision("int4", block=block, compute="fp16")).weight_bytes
    )


def test_what_a_target_adds_is_what_the_documents_say(tmp_path: Path) -> None:
    """Zeros for the biases of keys, where queries and values have some; a byte for each zero of a table of 61 rows of 4 blocks."""
    model = tiny("parallel", "d_model=64")
    held = lengths(model, FP32, "ort", tmp_path / "biases")
    assert sum(held.values()) - counted(model).weight_bytes == 2 * 64 * 4
    model = tiny("llama", "d_model=64", "decoder.ffn.width=64")
    numbers = precision("int4", block=16, symmetric=False)
    for target, zeros in (("ort", 0), ("onnx", 61 * 4 // 2)):
        held = lengths(model, numbers, target, tmp_path / target)  # type: ignore[arg-type]
        assert sum(held.values()) - angles(held) - counted(model, numbers).weight_bytes == zeros
    turned = lengths(tiny("llama", "d_model=64"), precision("fp16"), "ort", tmp_path / "angles")
    assert angles(turned) == CONTEXT * 16 * 2  # heads of 16, a cosine and a sine for each pair


def test_the_file_that_is_written_has_these_bytes_and_gaps(tmp_path: Path) -> None:
    model, numbers = tiny("gpt2", "d_model=64"), precision("int4")
    export(model, stored(random_module(model)), "x: 1\n", tmp_path / "out", verify=False, precision=numbers)
    gaps, end = 0, 0
    for start, length in sorted(places(tmp_path / "out")):
        gaps, end = gaps + start - end, start + length
    assert counted(model, numbers).weight_bytes == (tmp_path / "out/model.onnx.data").stat().st_size - gaps
    assert gaps < 64 * len(places(tmp_path / "out"))


@pytest.mark.parametrize("name", ["albert", "shared"])
def test_layers_that_share_weights_share_them_in_fused_products_too(name: str, tmp_path: Path) -> None:
    held = lengths(tiny(name), FP32, "ort", tmp_path / "out")
    assert sum("qkv.weight" in name for name in held) == len({*tiny(name).stacks().popitem()[1].owners})


def test_by_hand() -> None:
    """A Llama of 61 tokens, 64 wide, in blocks of 32, computed in fp16: half a byte a code and two for the scale of each block.
    What narrows the ffn has rows of 48, which are no blocks of 32.
    """
    blocks = 2 * 61 * 64 + 3 * (2 * 64 * 64 + 2 * 32 * 64 + 2 * 48 * 64)
    floats = 3 * (64 * 48 + 2 * 64 + 2 * 16) + 64
    numbers = precision("int4", compute="fp16")
    c = counted(tiny("llama", "d_model=64"), numbers)
    assert c.weight_bytes == blocks // 2 + blocks // 32 * 2 + floats * 2
    assert c.bits == pytest.approx(8 * c.weight_bytes / (blocks + floats))
    assert c.cache_bytes == 2 * (2 * 2 * 16 * (2 * 4 + 8))  # two layers keep a window of 4
    assert counted(tiny("llama", "d_model=64")).cache_bytes == 2 * c.cache_bytes


def test_routers_are_float32_in_half_a_float() -> None:
    """Six experts: a router of 6 × 64 in two layers, one of them with a bias."""
    model = tiny("moe", "d_model=64")
    total = sum(t.size for t in model.tensors())
    assert counted(model, precision("bf16")).weight_bytes == 2 * total + 2 * (2 * 6 * 64 + 6)


def test_the_large_one_that_was_written() -> None:
    """5,086,920,704 bytes of `--target ort`, of which 131,072 positions of 64 angles are cosines and sines."""
    c = load("llama-3.1-8b").count(precision="int4")
    assert c.weight_bytes + 2 * 131_072 * 64 * 4 == 5_086_920_704
    assert str(c.storage) == "226 of 291 tensors are int4; 65: vectors"


# ------------------------------------------------------------------------------------------------------------ the words


def test_training_is_counted_in_what_is_trained_in() -> None:
    model = tiny("gpt2")
    whole, half = counted(model), counted(model, precision("fp16"))
    assert whole.training
    assert half.training
    assert (whole.training.gradients, half.training.gradients) == (whole.weight_bytes, half.weight_bytes)
    assert half.training.optimizer == 3 * whole.weight_bytes  # two moments, and a copy in float32
    assert half.memory["training"] == half.weight_bytes + half.training.total
    small = counted(model, precision("int8")).memory
    assert [name for name, n in small.items() if n is not None] == ["weights", "inference"]


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ({"precision": "float16"}, "There is no precision 'float16'"),
        ({"precision": "int4", "compute": "float16"}, "There is no precision 'float16'"),
        ({"precision": "fp16", "block": 32}, "fp16 has no blocks, so a block size would do nothing"),
        ({"precision": "int4", "block": 48}, "A block of 48 weights has no kernels"),
        ({"precision": "int4", "keep": "haed"}, "No weight is called haed"),
    ],
)
def test_what_export_refuses_count_refuses(said: dict[str, Any], match: str, tmp_path: Path) -> None:
    arch = load("gpt2")
    with pytest.raises(UsageError, match=match):
        arch.count(**said)
    with pytest.raises(UsageError, match=match):
        arch.export(tmp_path / "out", verify=False, graph_only=True, **said)


def printed(*args: str) -> str:
    done = CliRunner().invoke(cli, ["count", "gpt2", *args], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_both_commands_have_the_same_options() -> None:
    options = []
    for name in ("count", "export"):
        command = cli.get_command(None, name)  # type: ignore[arg-type]
        assert command
        told = {option.name: option.to_info_dict() for option in command.params}
        options.append({key: told[key] for key in ("precision", "compute", "block", "asymmetric", "keep")})
    assert options[0] == options[1]


def test_every_format_says_the_precision() -> None:
    words = ("--precision", "int4", "--compute", "fp16", "--asymmetric", "--keep", "head")
    text = printed(*words)
    assert "\nKV cache in fp16: " in text
    assert "\nMemory in int4 in asymmetric blocks of 32, computed in fp16\n" in text
    assert "72 of 196 tensors are int4; 1: kept;" in text
    assert "bits a weight on average" in text
    assert "gradients" not in text
    record = json.loads(printed(*words, "--format", "json"))
    assert record["precision"] == {"name": "int4", "compute": "fp16", "block": 32, "symmetric": False, "keep": ["head"]}
    assert record["memory"]["training"] is None
    rows = [*csv.DictReader(io.StringIO(printed(*words, "--format", "csv")))]
    said = {(r["row"], r["quantity"]): int(r["value"]) for r in rows if r["table"] == "precision"}
    assert said == {
        ("int4", "weight_bits"): 4,
        ("fp16", "compute_bits"): 16,
        ("int4", "block"): 32,
        ("int4", "symmetric"): 0,
        ("head", "keep"): 1,
    }
    assert [r["row"] for r in rows if r["table"] == "memory"] == ["weights", "inference"]
    assert "\nMemory in fp32\n" in printed()


def test_every_path_says_how_it_is_stored() -> None:
    """A matrix of 3,072 × 768: half a byte each, and 4 for every 32 of them."""
    words = ("--by", "path", "--precision", "int4")
    record = json.loads(printed(*words, "--format", "json"))
    rows = {r["path"]: r for r in csv.DictReader(io.StringIO(printed(*words, "--format", "csv")))}
    assert {path: int(r["bytes"]) for path, r in rows.items()} == record["memory"]["weights_by_path"]
    assert sum(record["memory"]["weights_by_path"].values()) == record["memory"]["weights"]
    up = rows["decoder.layers.0.ffn.up.weight"]
    assert (up["stored"], int(up["bytes"])) == ("int4", 3072 * 768 // 2 + 3072 * 768 // 32 * 4)
    assert rows["decoder.embedding.positions.weight"]["stored"] == "fp32"


@pytest.mark.parametrize("name", [*TINY, *GROWING])
@pytest.mark.parametrize("numbers", PRECISIONS, ids=str)
def test_the_bytes_of_a_model_are_those_of_its_tensors(name: str, numbers: Precision) -> None:
    """Though equal layers are asked once: what layers share, and what is tied, is there once."""
    model = tiny(name)
    each = storage(model, numbers).bytes_of
    assert count(model, context_length=CONTEXT, precision=numbers).weight_bytes == sum(map(each, model.tensors()))


@pytest.mark.parametrize("numbers", [FP32, precision("int4")], ids=str)
def test_equal_layers_are_asked_once(numbers: Precision, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def bytes_of(how: Storage, tensor: Tensor) -> int:
        asked.append(tensor.path)
        return of(how, tensor)

    of = Storage.bytes_of
    monkeypatch.setattr(Storage, "bytes_of", bytes_of)
    times = []
    for layers in (2, 40):
        asked.clear()
        count(tiny("gpt2", f"decoder.layers={layers}"), context_length=CONTEXT, precision=numbers)
        times.append(len(asked))
    assert times[0] == times[1]
    assert max(times) < 40


def test_a_pattern_may_name_one_of_equal_layers() -> None:
    model = tiny("gpt2", "decoder.layers=3")
    every, kept = (
        count(model, context_length=CONTEXT, precision=precision("int4", block=16, keep=keep)).weight_bytes
        for keep in ((), ("decoder.layers.1.ffn",))
    )
    codes = 2 * 32 * 48
    assert kept - every == codes * 4 - (codes // 2 + codes // 16 * 4)  # floats, for 4 bits each and a scale for 16
