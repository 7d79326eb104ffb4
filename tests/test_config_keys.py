"""One key of a published config changed: transformers reads the same file, and archspec says the same or refuses it by name."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from parity import Parity, cases, perturbed
from reference import built
from torch.testing import assert_close

from archspec.errors import WeightsError

CASES = {case.name: case for case in cases()}
WHOLE = {"rope_type": "default", "rope_theta": 500.0}
HALF = WHOLE | {"partial_rotary_factor": 0.5}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 8.0, "original_max_position_embeddings": 64}


class Changed(Parity):
    """A case whose config.json has other values; its model is what transformers makes of that file."""

    def __init__(self, name: str, folder: Path, **values: Any) -> None:
        super().__init__(CASES[name], folder)
        self.values = values

    @cached_property
    def theirs(self) -> transformers.PreTrainedModel:
        file = self.folder / "config.json"
        super().theirs.config.save_pretrained(self.folder)
        said = json.dumps(json.loads(file.read_text()) | self.values)
        file.write_text(said)
        torch.manual_seed(3)
        read = transformers.AutoConfig.from_pretrained(self.folder)
        model = perturbed(built(self.case.class_of(self.case.model, "modeling"), read))
        model.save_pretrained(self.folder)
        file.write_text(said)
        return model


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("t5", {"dense_act_fn": "silu"}), ("t5", {"feed_forward_proj": "gelu"}), ("t5", {"is_gated_act": True}),
        ("t5", {"scale_decoder_outputs": None}), ("t5", {"tie_word_embeddings": False}),
        ("mt5", {"dense_act_fn": "gelu"}), ("umt5", {"feed_forward_proj": "gated-silu"}),
        ("modernbert", {"rope_parameters": {"full_attention": WHOLE, "sliding_attention": WHOLE}}),
        ("nomic_bert", {"rope_parameters": WHOLE | {"partial_rotary_factor": 1.0}}), ("deberta", {"pos_att_type": "P2C"}),
        ("deberta_v2", {"embedding_size": 12}), ("deberta_v2 (bare)", {"embedding_size": 36}),
        ("phi3", {"partial_rotary_factor": 0.5}), ("gpt_oss", {"rope_parameters": YARN | {"truncate": None}}),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_read_is_read_as_transformers_does(name: str, values: dict[str, Any], tmp_path: Path) -> None:
    changed = Changed(name, tmp_path, **values)
    texts = changed.texts()
    assert_close(changed.said(texts), changed.expected(texts), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        ("deberta_v2", {"pos_att_type": ["p2c", "c2p", "c2p"]}, "pos_att_type"),
        ("deberta (positions in the embedding too, types)", {"relative_attention": False}, "pos_att_type"),
        ("deberta_v2", {"embedding_size": 12, "type_vocab_size": 2}, "embedding_size: 12"),
        ("deepseek_v3", {"head_dim": 2}, "head_dim: 2"),
        ("nomic_bert", {"rope_parameters": HALF}, "partial_rotary_factor: 0.5"),
        ("nomic_bert", {"partial_rotary_factor": 0.5}, "partial_rotary_factor: 0.5"),
        ("modernbert", {"rope_parameters": {"full_attention": HALF, "sliding_attention": WHOLE}}, "partial_rotary_factor: 0.5"),
        ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor: 0.5"),
        ("gpt_oss", {"rope_parameters": YARN | {"original_max_position_embeddings": 64.5}}, "embeddings: 64.5, which is no whole"),
        ("gemma3", {"attn_logit_softcapping": 0.5}, "attn_logit_softcapping: 0.5"),
    ],
    ids=str,
)  # fmt: skip
def test_what_programs_read_differently_is_refused(
    name: str, values: dict[str, Any], told: str, tmp_path: Path
) -> None:
    with pytest.raises(WeightsError, match=told):
        _ = Changed(name, tmp_path, **values).loaded
