"""The check before an export gets its name: it finds what is wrong, and lets pass what is right."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx_cases import exported, random_module, stored, verified
from tiny import DECODERS, TINY, tiny

from archspec.compiler.precision import Precision
from archspec.errors import VerificationError, WeightsError
from archspec.exporters.onnx.export import export
from archspec.exporters.onnx.questions import Case
from archspec.exporters.onnx.sources import of_module
from archspec.exporters.onnx.verify import SAME, TOLERANCE
from archspec.exporters.torch.module import build


@pytest.mark.parametrize("name", TINY)
def test_what_is_right_passes_by_far(name: str) -> None:
    e = exported(name)
    found = verified(e.folder, e.model, e.module)
    assert found.difference < found.tolerance / 10
    assert found.values > 0
    assert found.remark is None


@pytest.mark.parametrize("name", DECODERS)
def test_what_is_right_for_onnx_runtime_passes_by_far(name: str, tmp_path: Path) -> None:
    """Fused, with a context that is shorter than the texts which are usually compared."""
    model = tiny(name)
    module = random_module(model)
    done = export(
        model, stored(module), "x: 1\n", tmp_path / "out", target="ort", context_length=24, module=module, last_only=False
    )  # fmt: skip
    assert done.verification is not None
    assert done.verification.difference < done.verification.tolerance / 10


def other_window(graph: onnx.GraphProto) -> bool:
    """One key less."""
    for node in (n for n in graph.node if n.op_type == "GroupQueryAttention"):
        for attribute in (a for a in node.attribute if a.name == "local_window_size"):
            attribute.i -= 1
            return True
    return False


def no_rotation(graph: onnx.GraphProto) -> bool:
    """The fused kernel passes queries and keys as they are."""
    node = next(n for n in graph.node if n.op_type == "GroupQueryAttention")
    (turn,) = (a for a in node.attribute if a.name == "do_rotary")
    turn.i = 0
    del node.input[7:]
    return True


@pytest.mark.parametrize("change", [other_window, no_rotation])
def test_a_wrong_fused_graph_is_found(change, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    model = tiny("llama", "decoder.attention.head_dim=16")
    module = random_module(model)
    export(model, stored(module), "x: 1\n", tmp_path / "out", target="ort", context_length=64, verify=False)
    proto = onnx.load(tmp_path / "out/model.onnx", load_external_data=False)
    assert change(proto.graph)
    onnx.save(proto, tmp_path / "out/model.onnx")
    with pytest.raises(VerificationError, match=r"model\.onnx.*differs from PyTorch"):
        verified(tmp_path / "out", model, module, context=64)


#: Models that a text cannot be read in pieces by, and a norm with a bias and no weight.
ALONE = (
    ("pooler", "encoder.attention.position={kind: rope, scaling: {kind: dynamic, factor: 2.0, original_context: 8}}"),
    ("seq2seq", "head={kind: classifier, labels: 3, pool: last}"),
    ("seq2seq", "head={kind: pooler}"),
    ("gpt2", "decoder.attention.qk_norm={over: each_head, norm: {kind: layernorm, weight: none, bias: true}}"),
)


@pytest.mark.parametrize(("name", "override"), ALONE)
def test_models_with_one_thing_changed_pass(name: str, override: str) -> None:
    e = exported(name, override)
    assert verified(e.folder, e.model, e.module).values > 0


def changed(name: str, folder: Path, file: str, change) -> None:  # type: ignore[no-untyped-def]
    """An export with one graph edited."""
    shutil.copytree(exported(name).folder, folder)
    proto = onnx.load(folder / file, load_external_data=False)
    assert change(proto.graph)
    onnx.save(proto, folder / file)


def other_gelu(graph: onnx.GraphProto) -> bool:
    gelus = [n for n in graph.node if n.op_type == "Gelu"]
    for n in gelus:
        n.attribute[0].s = b"none"
    return bool(gelus)


def other_scale(graph: onnx.GraphProto) -> bool:
    n = next(n for n in graph.node if n.op_type == "Attention")
    next(a for a in n.attribute if a.name == "scale").f *= 1.02
    return True


def other_eps(graph: onnx.GraphProto) -> bool:
    n = next(n for n in graph.node if n.op_type == "LayerNormalization")
    next(a for a in n.attribute if a.name == "epsilon").f = 1e-3
    return True


def other_mask(graph: onnx.GraphProto) -> bool:
    """j < i for j <= i."""
    n = next(n for n in graph.node if n.op_type == "LessOrEqual")
    n.op_type = "Less"
    return True


@pytest.mark.parametrize("change", [other_gelu, other_scale, other_eps, other_mask])
@pytest.mark.parametrize("file", ["model.onnx", "logits.onnx"])
def test_a_wrong_graph_is_found(change, file: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    e = exported("gpt2")
    changed("gpt2", tmp_path / "out", file, change)
    with pytest.raises(VerificationError, match=rf"{file}.*differs from PyTorch") as error:
        verified(tmp_path / "out", e.model, e.module)
    assert error.value.exit_code == 70


@pytest.mark.parametrize(
    ("name", "override"), [("gpt2", "head={kind: lm, tied: false, bias: true}"), ("classifier", "head.labels=4")]
)
def test_outputs_that_hang_on_nothing_prove_nothing(name: str, override: str, tmp_path: Path) -> None:
    """A head of zeros and its bias: a wrong graph passes too, and the verification says so."""
    model = tiny(name, override)
    module = random_module(model)
    assert verified(exported(name).folder, tiny(name), exported(name).module).remark is None
    with torch.no_grad():
        module.get_parameter("head.out.weight").zero_()
    for numbers in (Precision("fp16"), Precision()):
        done = export(
            model, stored(module), "x: 1\n", tmp_path / "out", module=module, precision=numbers, overwrite=True
        )
        assert done.verification is not None
        assert done.verification.remark == SAME
    for file in (tmp_path / "out").glob("*.onnx"):
        proto = onnx.load(file, load_external_data=False)
        assert other_eps(proto.graph)
        onnx.save(proto, file)
    assert verified(tmp_path / "out", model, module).remark == SAME


def test_a_wrong_weight_is_found(tmp_path: Path) -> None:
    e = exported("gpt2")
    shutil.copytree(e.folder, tmp_path / "out")
    data = np.memmap(tmp_path / "out/model.onnx.data", np.float32, "r+")
    data[len(data) // 2] += 0.1
    data.flush()
    with pytest.raises(VerificationError):
        verified(tmp_path / "out", e.model, e.module)


def test_not_a_number_is_a_difference(tmp_path: Path) -> None:
    model = tiny("gpt2")
    module = random_module(model)
    with torch.no_grad():
        module.get_parameter("decoder.final_norm.bias")[0] = torch.nan
    with pytest.raises(WeightsError, match=r"decoder\.final_norm\.bias holds numbers"):
        export(model, stored(module), "x: 1\n", tmp_path / "out", module=module)
    assert not list(tmp_path.iterdir())


def test_a_graph_that_does_not_load_is_a_failure(tmp_path: Path) -> None:
    e = exported("gpt2")
    shutil.copytree(e.folder, tmp_path / "out")
    (tmp_path / "out/model.onnx").write_bytes(b"no model")
    with pytest.raises(VerificationError, match=r"does not load model\.onnx"):
        verified(tmp_path / "out", e.model, e.module)


def test_the_module_is_left_as_it_was_and_may_be_in_half_precision(tmp_path: Path) -> None:
    model = tiny("gpt2", "dtype=bfloat16")
    module = build(model).train()
    summary = export(
        model,
        of_module(module),
        "x: 1\n",
        tmp_path / "out",
        module=module,
    )
    assert summary.verification
    assert module.training
    assert next(module.parameters()).dtype == torch.bfloat16


def test_the_tolerance_follows_the_outputs() -> None:
    """Ten times the logits, ten times the rounding: what is allowed is a share of their spread."""
    small, large = (exported("gpt2", f"head.scale={by}") for by in (1.0, 10.0))
    one, ten = (verified(e.folder, e.model, e.module).tolerance for e in (small, large))
    assert ten / one == pytest.approx(10, rel=1e-3)
    _, want = small.send(Case(3, (24,), False, 1))
    assert one == pytest.approx(TOLERANCE * want.std(), rel=0.2)
