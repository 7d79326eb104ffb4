"""Checkpoints whose text model is one part of several: that part is imported, as transformers has it alone."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers
from parity import VOCAB, moe, perturbed
from reference import built, logits
from test_families import near

from archspec.compiler.lower import lower
from archspec.compiler.resolve import resolve_text
from archspec.exporters.torch.module import build
from archspec.exporters.weights.imports import spec_of
from archspec.exporters.weights.load import read_into
from archspec.exporters.weights.source import open_weights

VISION = {
    "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64, "image_size": 8,
    "patch_size": 4, "vision_output_dim": 16, "projector_input_dim": 16, "projector_output_dim": 16,
}  # fmt: skip


def test_the_text_part_of_a_model_that_sees(tmp_path: Path) -> None:
    sizes = moe(attention_chunk_size=4, intermediate_size_mlp=28, num_experts_per_tok=1, num_hidden_layers=4)
    text = {key: value for key, value in sizes.items() if hasattr(transformers.Llama4TextConfig, key)}
    config = transformers.Llama4Config(text_config=text, vision_config=VISION)
    theirs = perturbed(built(transformers.Llama4ForConditionalGeneration, config))
    theirs.save_pretrained(tmp_path)
    spec = resolve_text(spec_of(tmp_path), "spec.yaml").spec
    model = lower(spec)
    ours = build(model, dtype="float64").eval()
    report = read_into(model, open_weights(tmp_path), ours, spec.context_length)
    assert report.tensors == sum(1 for _ in model.tensors())
    ids = torch.randint(3, VOCAB, (2, 13), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        near(ours(ids), logits(theirs.language_model, ids, use_cache=False))
