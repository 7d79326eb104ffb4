"""llama.cpp's architectures: metadata to a spec, tensors to the same weights. transformers' own reader of GGUF is the witness."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from parity import Parity, cases
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from archspec.compiler.lower import lower
from archspec.compiler.resolve import resolve_text
from archspec.errors import WeightsError
from archspec.exporters.torch.module import build
from archspec.exporters.weights.agree import NO_FUNCTION, differences
from archspec.exporters.weights.families import all_families
from archspec.exporters.weights.families.gguf import _KEYS as KEYS
from archspec.exporters.weights.imports import spec_of
from archspec.exporters.weights.load import read_into
from archspec.exporters.weights.maps import plan
from archspec.exporters.weights.source import open_weights
from archspec.exporters.weights.transforms import written

#: Architecture, a case of tests/families, and whether transformers reads it from GGUF.
KINDS = [
    ("llama", "llama", True), ("llama", "llama (tied, biases)", False), ("llama", "mixtral", False), ("qwen2", "qwen2", True),
    ("qwen3", "qwen3", True), ("qwen3moe", "qwen3_moe", True), ("gemma", "gemma", False), ("gemma2", "gemma2", True),
    ("gemma3", "gemma3", True), ("gpt2", "gpt2", True), ("smollm3", "smollm3", False), ("olmo2", "olmo2", False),
    ("starcoder2", "starcoder2", True),
]  # fmt: skip


@pytest.fixture(scope="module", params=KINDS, ids=lambda k: k[1])
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Parity, Path]:
    """An architecture, a case's model, and that model as a GGUF file written by our map."""
    folder, (kind, name, _) = tmp_path_factory.mktemp("gguf"), request.param
    parity = Parity(next(c for c in cases() if c.name == name), folder / "checkpoint")
    return kind, parity, _written(folder / f"{kind}.gguf", kind, parity)


def _written(path: Path, kind: str, parity: Parity) -> Path:
    writer = gguf.GGUFWriter(path, kind)
    for key, value in _metadata(kind, parity.theirs.config).items():
        add = writer.add_uint32 if isinstance(value, int) else writer.add_float32
        add(f"{kind}.{key}", value)
    tensors = parity.ours.state_dict()
    family = next(f for f in all_families() if f.name == f"{kind} (GGUF)")
    for e in plan(family, parity.model).entries:
        arrays = written(e.chain, [tensors[p].numpy() for p in e.paths], e.op)
        for name, array in zip(e.theirs, arrays, strict=True):
            writer.add_tensor(name, np.ascontiguousarray(array, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _metadata(kind: str, config: Any) -> dict[str, Any]:
    """What llama.cpp's converter takes from a config."""
    words = {"num_local_experts": "num_experts", "layer_norm_epsilon": "norm_epsilon", "intermediate_size": "n_inner"}
    found: dict[str, Any] = {}
    for key, name in KEYS.items():
        value = next((v for n in (name, words.get(name, "")) if (v := getattr(config, n, None)) is not None), None)
        if value is not None and not (name == "sliding_window" and not kind.startswith("gemma")):
            found[key] = value
    rope = getattr(config, "rope_parameters", None) or {}
    if rope:
        found["rope.freq_base"] = rope.get("full_attention", rope)["rope_theta"]
    if kind == "gpt2":
        found["feed_forward_length"] = config.n_inner or 4 * config.n_embd
    return found


def test_metadata_says_the_spec_that_the_config_says(stored: tuple[str, Parity, Path]) -> None:
    kind, parity, path = stored
    imported = lower(resolve_text(spec_of(path), "spec").spec)
    apart = list(differences(imported, parity.model, NO_FUNCTION))
    if kind in ("gemma2", "gemma3"):  # their scale of scores is not in the metadata: llama.cpp takes 1 / sqrt(head_dim)
        apart = [d for d in apart if not d[0].endswith("scores.scale")]
    if kind == "starcoder2":  # llama.cpp has no windows for it
        apart = [d for d in apart if not d[0].endswith("mask.window")]
    assert apart == []


def test_tensors_are_read_back(stored: tuple[str, Parity, Path]) -> None:
    kind, parity, path = stored
    spec = resolve_text(spec_of(path), "spec").spec
    module = build(lower(spec), dtype="float32")
    report = read_into(lower(spec), open_weights(path), module, spec.context_length)
    assert (report.family, report.unused, report.buffers) == (f"{kind} (GGUF)", (), ())
    ours = parity.ours.state_dict()
    for name, tensor in module.stored():
        torch.testing.assert_close(tensor.double(), ours[name], rtol=0, atol=1e-7)


@pytest.mark.filterwarnings("ignore")
def test_transformers_reads_the_same_weights(stored: tuple[str, Parity, Path]) -> None:
    kind, parity, path = stored
    if (kind, parity.case.name, True) not in KINDS:
        pytest.skip(f"transformers does not read {parity.case.name} from GGUF")
    read = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=parity.theirs)["tensors"]
    expected = parity.theirs.state_dict()
    assert set(read) == {n for n in expected if n in read or n != "lm_head.weight"}
    for name, tensor in read.items():
        torch.testing.assert_close(torch.as_tensor(tensor).double(), expected[name], rtol=0, atol=1e-6)


def test_a_table_of_rotations_is_refused(tmp_path: Path) -> None:
    """Llama 3.1 in GGUF: the factors of its frequencies are a tensor."""
    writer = gguf.GGUFWriter(tmp_path / "scaled.gguf", "llama")
    for key, value in {"block_count": 1, "embedding_length": 8, "attention.head_count": 2, "vocab_size": 5}.items():
        writer.add_uint32(f"llama.{key}", value)
    writer.add_tensor("rope_freqs.weight", torch.ones(2).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(WeightsError, match=r"rope_freqs\.weight"):
        spec_of(tmp_path / "scaled.gguf")
