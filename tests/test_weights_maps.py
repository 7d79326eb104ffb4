"""Name maps: laws of the steps, and hand-made layouts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from checkpoints import FORMS, GPT2, Memory, checkpoint, family, model, numbered

from archspec.exporters.torch.module import build
from archspec.exporters.weights import maps
from archspec.exporters.weights.families import all_families
from archspec.exporters.weights.fit import choose
from archspec.exporters.weights.load import read_into
from archspec.exporters.weights.maps import kind_of, plan
from archspec.exporters.weights.transforms import Fuse, RopeOrder, Transform, Transpose, read_back, written
from archspec.ops.attention import Attention
from archspec.ops.words import Mask, Rope, Scores


def heads(**changes: object) -> Attention:
    fields: dict[str, object] = {"width": 8, "heads": 2, "kv_heads": 2, "head_dim": 4, "v_head_dim": 4}
    fields |= {"scores": Scores(Mask(), 1.0), "rope": Rope(4)} | changes
    return Attention(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "chain",
    [(), (Transpose(),), (Fuse(),), (Fuse(), Transpose()), (RopeOrder(),), (RopeOrder(), Fuse(), Transpose())],
    ids=lambda c: "+".join(type(t).__name__ for t in c) or "identity",
)
@pytest.mark.parametrize("columns", [(), (3,)], ids=["vectors", "matrices"])
def test_reading_undoes_writing(chain: tuple[Transform, ...], columns: tuple[int, ...]) -> None:
    ours = [np.random.randn(8, *columns), np.random.randn(16, *columns)]
    back = read_back(chain, written(chain, ours, heads()), [x.shape for x in ours], heads())
    assert all(np.array_equal(a, b) for a, b in zip(ours, back, strict=True))


def test_fused_rows_follow_each_other() -> None:
    (whole,) = Fuse().write([np.array([1, 2]), np.array([3]), np.array([4, 5])], heads())
    assert whole.tolist() == [1, 2, 3, 4, 5]


def test_llama_cpp_interleaves_the_halves_of_each_head() -> None:
    """Head of 4: rows 0 1 | 2 3 turn as pairs (0, 2) and (1, 3); llama.cpp turns neighbours."""
    (stored,) = RopeOrder().write([np.arange(8)], heads())
    assert stored.tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_a_model_that_turns_neighbours_needs_no_reordering() -> None:
    (stored,) = RopeOrder().write([np.arange(8)], heads(rope=Rope(4, interleaved=True)))
    assert stored.tolist() == list(range(8))


def test_gpt2_has_one_matrix_for_q_k_v_stored_in_by_out() -> None:
    made = model(GPT2)
    values = numbered(made)
    stored = checkpoint(made, "gpt2", values)["transformer.h.1.attn.c_attn.weight"]
    assert stored.shape == (8, 24)
    for i, name in enumerate("qkv"):
        assert torch.equal(stored[:, 8 * i : 8 * i + 8].T, values[f"decoder.layers.1.attention.{name}.weight"])


@pytest.mark.parametrize(
    "name", [name for name in FORMS if "GGUF" not in name]
)  # those have metadata: test_weights_gguf
def test_every_tensor_goes_there_and_back(name: str) -> None:
    made = model(FORMS[name])
    values = numbered(made)
    source = Memory(checkpoint(made, name, values), (family(name).format,))
    assert choose(made, source).family.name == name
    module = build(made, dtype="float32")
    report = read_into(made, source, module)
    assert report.tensors == len(values)
    assert not report.conversions
    read = dict(module.stored())
    assert all(torch.equal(read[path], value) for path, value in values.items())


@pytest.mark.parametrize("name", ["gpt2", "bert", "llama"])
def test_a_headless_checkpoint_has_no_prefix(name: str) -> None:
    made = model(FORMS[name].split("head:")[0] + "head: none")
    base = family(name).base
    with_prefix = checkpoint(made, name)
    assert all(n.startswith(base) for n in with_prefix)
    for tensors in (with_prefix, {n.removeprefix(base): t for n, t in with_prefix.items()}):
        assert choose(made, Memory(tensors)).names == set(tensors)


@pytest.mark.parametrize("name", FORMS)
def test_a_name_that_a_plan_knows_is_of_its_familys_kinds(name: str) -> None:
    """What is not of them need not be planned to be ruled out."""
    made = model(FORMS[name])
    for each in (f for f in all_families() if f.format != "archspec"):
        for names in (None, ()):  # with the family's prefix and without
            assert {kind_of(n) for n in plan(each, made, names).names} <= each.kinds


def test_our_own_names_are_recognised_by_one_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    made = model(GPT2)
    planned = []
    monkeypatch.setattr(maps, "plan", lambda f, *rest: planned.append(f.name) or plan(f, *rest))
    assert choose(made, Memory(checkpoint(made, "archspec"))).family.name == "archspec"
    assert planned == ["archspec"]


@pytest.mark.parametrize("name", FORMS)
def test_a_map_covers_every_path_once(name: str) -> None:
    made = model(FORMS[name])
    laid = plan(family(name), made)
    assert sorted(p for e in laid.entries for p in e.paths) == sorted(t.path for t in made.tensors())
    assert not laid.nameless
    names = [n for e in laid.entries for n in e.theirs]
    assert len(names) == len(set(names))
