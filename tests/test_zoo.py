"""The zoo: every published spec compiles, meets its totals, and means what transformers builds from the published sizes."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

import pytest
from published import MEANING, PUBLISHED, config, parameters

import archspec
from archspec.compiler.lower import lower
from archspec.compiler.resolve import resolve_text
from archspec.compiler.source import zoo_names
from archspec.exporters.weights.agree import differences
from archspec.exporters.weights.families import all_families
from archspec.exporters.weights.imports import spec_of
from archspec.language.model import Dropout

ZOO = sorted(zoo_names())
#: No class of transformers has these: the total is the checkpoint's, or torch.nn.Transformer's.
WITHOUT_CLASS = {"all-minilm-l6-v2", "transformer-base", "transformer-big"}


@pytest.mark.parametrize("name", ZOO)
def test_a_spec_compiles_counts_and_draws(name: str) -> None:
    """Compiling holds the totals against `expect`: a miss is an error."""
    arch = archspec.load(name)
    about, expect = arch.spec.about, arch.spec.expect
    assert arch.spec.name == name
    assert arch.warnings == ()
    assert about is not None
    assert about.title
    assert about.paper
    assert expect is not None
    assert expect.parameters is not None
    counts = arch.count(length=16)
    assert (expect.active_parameters is None) == (counts.parameters.active == counts.parameters.total)
    record = counts.record()["flops"]["forward"]
    assert 0 < record["causal"] <= record["dense"]
    assert (counts.cache_bytes > 0) == (arch.model.decoder is not None)
    assert 500 < len(arch.diagram("dot")) < 60_000


def test_every_spec_has_a_witness() -> None:
    assert set(ZOO) == set(PUBLISHED) | WITHOUT_CLASS


FAMILIES = {family: [n for n, _ in rows] for family, rows in groupby(PUBLISHED.items(), lambda item: item[1].config)}


@pytest.mark.parametrize("family", FAMILIES)
def test_totals_are_those_of_transformers(family: str) -> None:
    for name in FAMILIES[family]:
        assert archspec.load(name).count(length=1).parameters.total == parameters(PUBLISHED[name]), name


@pytest.mark.parametrize(("name", "width", "heads", "ffn"), [("base", 512, 8, 2048), ("big", 1024, 16, 4096)])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_the_original_transformer_is_torchs(name: str, width: int, heads: int, ffn: int) -> None:
    """torch.nn.Transformer has the stacks, and a final norm after each, which the paper's post-norm model does not."""
    import torch

    with torch.device("meta"):
        stacks = sum(p.numel() for p in torch.nn.Transformer(width, heads, 6, 6, ffn).parameters())
    counted = archspec.load(f"transformer-{name}").count(length=1).parameters
    assert counted.total == stacks - 4 * width + 37000 * width


# ------------------------------------------------------------------------------------------------------------- meaning

#: A norm without a weight is the same on either side of a rotation: the zoo writes the usual one.
SAME_FUNCTION = {"llama-4-scout": ["decoder.layers.0.layers.0.attention.qk_norm.order=before_rope"]}
#: How a model is trained, not what it is; a config does not say all of it.
TRAINING = {"name": "x", "dtype": "float32", "dropout": Dropout()}


@pytest.mark.parametrize("name", MEANING)
def test_a_spec_is_what_import_reads_in_its_config(name: str, tmp_path: Path) -> None:
    """Import is held to transformers' logits elsewhere; so equal operations are the published function."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config(name)))
    imported = resolve_text(spec_of(path), overrides=SAME_FUNCTION.get(name, [])).spec
    mine = archspec.load(name).spec
    assert imported.context_length == mine.context_length
    models = [lower(spec.model_copy(update=TRAINING)) for spec in (imported, mine)]
    assert list(differences(*models, ignored=())) == []  # constants to 1e-6: transformers keeps some in float32


def test_everything_that_import_reads_is_held_to_its_config() -> None:
    read = {kind for family in all_families() if family.read for kind in family.types}
    assert {name for name in PUBLISHED if config(name)["model_type"] in read} == set(MEANING)


# ------------------------------------------------------------------------------------------------------------- experts

#: Layers with experts, experts that a token leaves alone, parameters of one expert; and billions published as active (with
#: the tables that the publisher counts: both, the output's, none).
EXPERTS = {
    "mixtral-8x7b": (32, 6, 3 * 4096 * 14336, 12.9, "both"),
    "mixtral-8x22b": (56, 6, 3 * 6144 * 16384, 39, "both"),
    "qwen3-30b-a3b": (48, 120, 3 * 2048 * 768, 3.3, "both"),
    "qwen3-235b-a22b": (94, 120, 3 * 4096 * 1536, 22, "both"),
    "deepseek-v2-lite": (26, 58, 3 * 2048 * 1408, 2.4, "one"),
    "deepseek-v2": (59, 154, 3 * 5120 * 1536, 21, "both"),
    "deepseek-v3": (58, 248, 3 * 7168 * 2048, 37, "both"),
    "kimi-k2": (60, 376, 3 * 7168 * 2048, 32, "one"),
    "glm-4.5": (89, 152, 3 * 5120 * 1536, 32, "none"),
    "glm-4.5-air": (45, 120, 3 * 4096 * 1408, 12, "none"),
    "gpt-oss-20b": (24, 28, 3 * 2880 * 2880 + 3 * 2880, 3.61, "one"),
    "gpt-oss-120b": (36, 124, 3 * 2880 * 2880 + 3 * 2880, 5.13, "one"),
    "llama-4-scout": (48, 15, 3 * 5120 * 8192, 17, "both"),
    "llama-4-maverick": (24, 127, 3 * 5120 * 8192, 17, "both"),
}


@pytest.mark.parametrize("name", EXPERTS)
def test_active_parameters_leave_out_what_a_token_does_not_choose(name: str) -> None:
    layers, idle, size, published, tables = EXPERTS[name]
    arch = archspec.load(name)
    counted = arch.count(length=1).parameters
    assert counted.active == counted.total - layers * idle * size
    table = arch.spec.vocab_size * arch.spec.d_model
    theirs = counted.active - {"both": 0, "one": 1, "none": 2}[tables] * table
    assert theirs / 1e9 == pytest.approx(published, rel=0.025)


def test_every_mixture_is_in_the_table() -> None:
    mixtures = {n for n in ZOO if (e := archspec.load(n).spec.expect) and e.active_parameters is not None}
    assert mixtures == set(EXPERTS)


# -------------------------------------------------------------------------------------------------------------- caches


@pytest.mark.parametrize(
    ("name", "tokens", "numbers"),
    [
        ("gpt2", 1000, 12 * 2 * 12 * 64 * 1000),
        ("llama-3.1-8b", 1000, 32 * 2 * 8 * 128 * 1000),
        ("falcon-7b", 1000, 32 * 2 * 64 * 1000),
        ("mistral-7b", 10_000, 32 * 2 * 8 * 128 * 4096),
        ("gemma-2-9b", 8000, 21 * 2 * 8 * 256 * (4096 + 8000)),
        ("gemma-3-1b", 1000, 2 * 256 * (22 * 512 + 4 * 1000)),
        ("gpt-oss-20b", 1000, 12 * 2 * 8 * 64 * (128 + 1000)),
        ("llama-4-scout", 10_000, 2 * 8 * 128 * (36 * 8192 + 12 * 10_000)),
        ("deepseek-v3", 1000, 61 * (512 + 64) * 1000),
        ("minicpm3-4b", 1000, 62 * (256 + 32) * 1000),
    ],
)
def test_caches_by_hand(name: str, tokens: int, numbers: int) -> None:
    """What is kept after so many tokens: keys and values a head, a window's alone, or a latent."""
    counts = archspec.load(name).count(length=1, past=tokens - 1)
    assert counts.cache_bytes == counts.width * numbers
