"""Every family: its config says the same model, its weights fit, and the model says the same. transformers is the witness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
import reference
import torch
import transformers
from families_table import named
from onnx_cases import Exported, stored
from parity import Case, Parity, cases
from torch import Tensor

from archspec.errors import ArchspecError
from archspec.exporters.onnx.emit import Target
from archspec.exporters.onnx.export import export
from archspec.exporters.onnx.questions import Case as Request
from archspec.exporters.torch.cache import GrowingCache
from archspec.exporters.torch.module import build
from archspec.exporters.weights.imports import spec_of
from archspec.exporters.weights.save import save_hf

ALL = cases()
EXPRESSIBLE = [case for case in ALL if case.reason is None]


Record = Callable[[str, object], None]


def near(a: Tensor, b: Tensor, within: float = 1e-9) -> str:
    """The largest difference, which must be within this."""
    assert a.dtype == b.dtype == torch.float64
    assert float(b.std()) > 0.1  # or agreement would say little
    torch.testing.assert_close(a, b, rtol=0, atol=within)
    return f"{float((a - b).abs().max()):.0e}"


@pytest.fixture
def parity(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Parity:
    case: Case = request.param
    return _parity(case.name, tmp_path_factory.getbasetemp())


@cache
def _parity(name: str, root: Path) -> Parity:
    case = next(c for c in ALL if c.name == name)
    return Parity(case, root / "families" / name)


def every(selected: list[Case]) -> pytest.MarkDecorator:
    """A test for each of these cases. Those of one case run in one process, so that its model is made once."""
    marked = [pytest.param(case, id=case.name, marks=pytest.mark.xdist_group(case.name)) for case in selected]
    return pytest.mark.parametrize("parity", marked, indirect=True)


@every(EXPRESSIBLE)
def test_imports(parity: Parity) -> None:
    assert parity.spec.vocab_size == parity.theirs.config.vocab_size
    assert parity.model.form == parity.case.form


@every(EXPRESSIBLE)
def test_parameters(parity: Parity, record_property: Record) -> None:
    record_property("measured", f"{parity.parameters:,}")
    counted = [t for t in parity.model.tensors() if t.trained or parity.case.buffers_count]
    assert sum(t.size for t in counted) == parity.parameters
    _, report = parity.loaded
    assert report.tensors == sum(1 for _ in parity.model.tensors())
    assert set(report.unused) == set(parity.case.unused)


@every(EXPRESSIBLE)
def test_logits(parity: Parity, record_property: Record) -> None:
    texts = parity.texts()
    record_property("measured", near(parity.said(texts), parity.expected(texts)))


@every([case for case in EXPRESSIBLE if case.form != "decoder"])
def test_padded(parity: Parity, record_property: Record) -> None:
    """Padding in what an encoder reads changes nothing for the tokens: as in transformers, and it is not as if it were none."""
    measured = []
    for side in parity.case.padding:
        texts = parity.texts(side)
        measured.append(f"{near(parity.said(texts), parity.expected(texts))} ({side})")
        unmasked = replace(texts, **dict.fromkeys(("mask", "source_mask")))
        assert not torch.allclose(texts.of_tokens(parity.said(unmasked)), parity.said(texts))
    record_property("measured", ", ".join(measured))


@every([case for case in EXPRESSIBLE if case.form != "encoder"])
def test_cached(parity: Parity) -> None:
    """In pieces, as the whole; where a rotation depends on the length, a piece has the angles of its own time."""
    texts, cache = parity.texts(), GrowingCache()
    beside = texts.ours  # a source is given once, with the first piece
    with torch.no_grad():
        pieces = []
        for piece in texts.ids.split((6, 1, 1, 5), 1):
            pieces.append(parity.ours(piece, cache=cache, **beside))
            beside = {}
    near(torch.cat(pieces, 1), parity.said(texts), 1e-11)


@every([case for case in EXPRESSIBLE if case.onnx])
def test_onnx(parity: Parity, tmp_path: Path) -> None:
    """For both targets: whole texts, and what a decoder reads also in pieces; the rows of different lengths."""
    module = build(parity.model, dtype="float32").eval()
    module.load_state_dict(parity.ours.state_dict())
    exact = build(parity.model, dtype="float64").eval()
    exact.load_state_dict(module.state_dict())
    for target in get_args(Target):
        folder = tmp_path / target
        context = parity.spec.context_length
        export(
            parity.model, stored(module), "archspec: 1\n", folder, context_length=context, verify=False, target=target,
            last_only=False,
        )  # fmt: skip
        exported = Exported(parity.model, folder, module, exact)
        feed, want = exported.send(Request(2, (5, 1, 1, 4), True, 1))
        assert exported.difference(exported.whole(feed), want, feed) < 1e-4
        if parity.case.form == "encoder":
            continue
        got, _ = exported.stepped(feed, (5, 1, 1, 4))
        assert exported.difference(got, want, feed) < 1e-4


@every([case for case in EXPRESSIBLE if case.hf])
def test_written_as_hf(parity: Parity, tmp_path: Path) -> None:
    """A checkpoint written by us is the first one to transformers, and imports to the same spec."""
    save_hf(parity.model, parity.ours, tmp_path, parity.spec.context_length, prefer=parity.loaded[1].family)
    cls = getattr(transformers, parity.case.model)
    back, said = cls.from_pretrained(tmp_path, output_loading_info=True, attn_implementation="eager", dtype="float64")
    assert {name: set(said[name]) for name in ("missing_keys", "unexpected_keys", "mismatched_keys")} == {
        "missing_keys": set(parity.case.unused), "unexpected_keys": set(), "mismatched_keys": set(),
    }  # fmt: skip
    texts = parity.texts()
    near(parity.expected(texts, reference.exact(back, parity.case.tables)), parity.expected(texts))
    head = lambda text: text.split("\n", 3)[3]  # noqa: E731 - without name and source
    assert head(spec_of(tmp_path)) == head(parity.text)


@every([case for case in ALL if case.reason is not None])
def test_what_cannot_be_said_is_refused(parity: Parity) -> None:
    with pytest.raises(ArchspecError):
        assert parity.loaded is None


def test_the_table_in_the_documents_has_them_all(request: pytest.FixtureRequest) -> None:
    """`pytest tests/test_families.py --write-families` writes it."""
    if request.config.getoption("--write-families"):
        pytest.skip("it is being written")
    assert named() == [c.name for c in sorted(EXPRESSIBLE, key=str)] + sorted(c.name for c in ALL if c.reason)
