"""The same weights, the same function: transformers is the witness, in float64."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import reference
import torch
import transformers
from torch import Tensor

from archspec.compiler.lower import lower
from archspec.compiler.resolve import resolve_text
from archspec.exporters.torch.module import Transformer, build
from archspec.exporters.weights.agree import differences
from archspec.exporters.weights.config import Ledger
from archspec.exporters.weights.families import all_families
from archspec.exporters.weights.load import read_into
from archspec.exporters.weights.save import save_hf
from archspec.exporters.weights.source import open_weights
from archspec.ops.model import Model

_TOP = "archspec: 1\nname: tiny\nvocab_size: 61\nd_model: 32\n"
_BERT = """
context_length: 24
norm: {kind: layernorm, eps: 1e-12}
embedding: {position: learned, token_types: 2, norm: layernorm}
encoder:
  layers: 2
  placement: post
  attention: {heads: 4, bias: true}
  ffn: {kind: mlp, width: 80, activation: gelu, bias: true}
"""
_LLAMA = """
context_length: 64
norm: {kind: rmsnorm, eps: 1e-5}
decoder:
  layers: 2
  attention: {heads: 4, kv_heads: 2, head_dim: 12, position: {kind: rope, theta: 5000}}
  ffn: {kind: gated, width: 80, activation: silu}
"""
SPECS = {
    "gpt2": """
context_length: 24
norm: {kind: layernorm, eps: 1e-5}
embedding: {position: learned}
decoder:
  layers: 2
  attention: {heads: 4, bias: true}
  ffn: {kind: mlp, width: 80, activation: gelu_tanh, bias: true}
head: {tied: true}
dropout: {embedding: 0.1, attention: 0.1, residual: 0.1}
""",
    "bert": _BERT + "head: {tied: true, bias: true, transform: {activation: gelu}}",
    "bert bare": _BERT + "head: none",
    "llama": _LLAMA + "head: {tied: false}",
    "llama tied": _LLAMA.replace("heads: 4", "heads: 4, bias: true") + "head: {tied: true}",
}
KINDS = list(SPECS)


def model_of(kind: str) -> Model:
    return lower(resolve_text(_TOP + SPECS[kind]).spec)


@pytest.fixture(scope="module", params=KINDS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(request.param, tmp_path_factory.mktemp("checkpoint"))


class Pair:
    """A model of transformers, and ours with the weights of the checkpoint that it saved."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        self.theirs = reference.tiny(kind)
        self.theirs.save_pretrained(folder)
        self.model = model_of(kind)
        self.ours: Transformer = build(self.model, dtype="float64").eval()
        self.report = read_into(self.model, open_weights(folder), self.ours)
        self.encoder = self.model.form == "encoder"

    def ids(self, batch: int = 2, length: int = 11) -> Tensor:
        return torch.randint(2, 61, (batch, length), generator=torch.Generator().manual_seed(1))

    @torch.no_grad()
    def said(self, ids: Tensor, mask: Tensor | None = None, token_types: Tensor | None = None) -> Tensor:
        out: Tensor = self.ours(ids, mask, token_types=token_types)
        return out


def near(a: Tensor, b: Tensor) -> None:
    assert a.dtype == b.dtype == torch.float64
    assert float(b.std()) > 0.3  # or agreement would say little
    torch.testing.assert_close(a, b, rtol=0, atol=1e-9)


def test_parameters_are_those_of_transformers(pair: Pair) -> None:
    own = {name: p for name, p in pair.theirs.named_parameters() if "pooler" not in name}
    assert sum(t.size for t in pair.model.tensors()) == sum(p.numel() for p in own.values())
    assert pair.report.tensors == sum(1 for _ in pair.model.tensors())


def test_logits(pair: Pair) -> None:
    ids = pair.ids()
    near(pair.said(ids), reference.logits(pair.theirs, ids))


def test_padding_changes_nothing_for_the_tokens(pair: Pair) -> None:
    """Decoders are padded on the left as in generation, encoders on the right."""
    ids = pair.ids()
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    extra = {}
    if not pair.encoder:
        mask = mask.flip(1)
        extra["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
    theirs = reference.logits(pair.theirs, ids, attention_mask=mask, **extra)
    near(pair.said(ids, mask)[mask.bool()], theirs[mask.bool()])


def test_token_types(tmp_path: Path) -> None:
    pair = Pair("bert", tmp_path)
    ids = pair.ids()
    types = (torch.arange(11) > 4).long().expand(2, -1)
    near(pair.said(ids, token_types=types), reference.logits(pair.theirs, ids, token_type_ids=types))
    assert not torch.allclose(pair.said(ids, token_types=types), pair.said(ids))


def test_a_checkpoint_written_by_us_is_the_same_to_transformers(pair: Pair, tmp_path: Path) -> None:
    save_hf(pair.model, pair.ours, tmp_path, context_length=64)
    cls = getattr(transformers, reference.CLASSES[pair.kind])
    back, said = cls.from_pretrained(tmp_path, output_loading_info=True, attn_implementation="eager", dtype="float64")
    assert {n for n in said["missing_keys"] if not n.startswith("pooler.")} == set()
    assert (set(said["unexpected_keys"]), set(said["mismatched_keys"])) == (set(), set())
    ids = pair.ids()
    near(reference.logits(reference.exact(back), ids), reference.logits(pair.theirs, ids))


def test_the_config_says_what_the_spec_says(pair: Pair) -> None:
    """Two descriptions of one model, ours by hand and the one that transformers saved, compile to the same operations."""
    family = next(f for f in all_families() if f.name == pair.kind.split()[0])
    assert family.read is not None
    config = open_weights(pair.folder).metadata
    stated = family.read(Ledger(config))
    expected = lower(resolve_text(json.dumps({"archspec": 1, "name": "tiny", **stated})).spec)
    found = [d for d in differences(pair.model, expected, ("name", "dropout")) if not d[0].startswith("head")]
    assert found == []
