"""Weights that do not fit are refused, with everything that is wrong at once; what fits is streamed."""

from __future__ import annotations

import json
import weakref
from pathlib import Path

import pytest
import torch
from checkpoints import BERT, GPT2, LLAMA, Memory, checkpoint, model, numbered
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from archspec.errors import UsageError, WeightsError
from archspec.exporters.torch.module import build
from archspec.exporters.weights.families import all_families
from archspec.exporters.weights.load import LoadReport, read_into
from archspec.exporters.weights.save import save, save_hf
from archspec.exporters.weights.source import open_weights
from archspec.exporters.weights.transforms import Array
from archspec.ops.model import Model


def read(made: Model, tensors: dict[str, Tensor], config: dict[str, object] | None = None) -> LoadReport:
    source = Memory(tensors)
    source.metadata = config or {}
    return read_into(made, source, build(made, dtype="float32"))


def refused(made: Model, tensors: dict[str, Tensor], config: dict[str, object] | None = None) -> str:
    with pytest.raises(WeightsError) as caught:
        read(made, tensors, config)
    return str(caught.value)


# ------------------------------------------------------------------------------------------------------------ faults


def test_all_faults_are_told_at_once_and_nothing_is_written() -> None:
    made = model(LLAMA)
    tensors = checkpoint(made, "llama")
    for i in (0, 1):
        del tensors[f"model.layers.{i}.mlp.up_proj.weight"]
    tensors["model.layers.0.self_attn.q_proj.bias"] = torch.zeros(24)
    tensors["model.norm.weight"] = torch.zeros(9)
    module = build(made, dtype="float32")
    before = {k: v.clone() for k, v in module.state_dict().items()}
    with pytest.raises(WeightsError) as caught:
        read_into(made, Memory(tensors), module)
    assert str(caught.value).splitlines() == [
        "checkpoint does not fit small (read by the llama map):",
        "  missing: model.layers.{0-1}.mlp.up_proj.weight",
        "  extra: model.layers.0.self_attn.q_proj.bias",
        "  misshapen: model.norm.weight is 9, the spec needs 8",
    ]
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())


def test_another_vocabulary_is_named() -> None:
    made = model(LLAMA)
    tensors = checkpoint(made, "llama")
    tensors["model.embed_tokens.weight"] = torch.zeros(15, 8)
    assert "the file's table has 15 rows, the spec's 13: compare vocab_size" in refused(made, tensors)


def test_another_table_of_positions_is_named() -> None:
    made = model(GPT2)
    tensors = checkpoint(made, "gpt2")
    tensors["transformer.wpe.weight"] = torch.zeros(7, 8)
    assert "the file's table has 7 rows, the spec's 5: compare context_length" in refused(made, tensors)


def test_integers_are_no_weights() -> None:
    made = model(LLAMA)
    tensors = checkpoint(made, "llama")
    tensors["model.norm.weight"] = torch.zeros(8, dtype=torch.int64)
    assert "not floating point: model.norm.weight is I64" in refused(made, tensors)


def test_an_untied_spec_needs_a_head() -> None:
    made = model(LLAMA)
    tensors = checkpoint(made, "llama")
    del tensors["lm_head.weight"]
    message = refused(made, tensors)
    assert "missing: lm_head.weight" in message
    assert "head: {tied: true}" in message


def test_a_tied_spec_takes_two_equal_tensors_but_not_two_different_ones() -> None:
    made = model(LLAMA.replace("tied: false", "tied: true"))
    tensors = checkpoint(made, "llama")
    table = tensors["model.embed_tokens.weight"]
    assert "lm_head.weight" not in tensors
    assert read(made, tensors | {"lm_head.weight": table.clone()}).unused == ()
    message = refused(made, tensors | {"lm_head.weight": table + 1})
    assert "two different ones in the file: model.embed_tokens.weight and lm_head.weight" in message
    assert "head: {tied: false}" in message


def test_a_tied_table_may_stand_under_the_heads_name_alone() -> None:
    made = model(LLAMA.replace("tied: false", "tied: true"))
    tensors = checkpoint(made, "llama")
    tensors["lm_head.weight"] = tensors.pop("model.embed_tokens.weight")
    module = build(made, dtype="float32")
    read_into(made, Memory(tensors), module)
    assert torch.equal(module.get_parameter("decoder.embedding.tokens.weight"), tensors["lm_head.weight"])


def test_copies_of_a_bias_must_be_equal() -> None:
    made = model(BERT)
    tensors = checkpoint(made, "bert")
    bias = tensors["cls.predictions.bias"]
    assert read(made, tensors | {"cls.predictions.decoder.bias": bias.clone()}).unused == ()
    assert "two different ones" in refused(made, tensors | {"cls.predictions.decoder.bias": bias + 1})


# ------------------------------------------------------------------------------------------- what a model has no part for


def test_other_heads_are_reported_and_masks_are_not_weights() -> None:
    made = model(BERT.split("head:")[0] + "head: none")
    full = checkpoint(model(BERT), "bert")
    rest = {
        "bert.pooler.dense.weight": torch.zeros(8, 8),
        "cls.seq_relationship.bias": torch.zeros(2),
        "bert.embeddings.position_ids": torch.arange(5),
    }
    report = read(made, full | rest)
    assert set(report.unused) == {n for n in full if n.startswith("cls.")} | set(rest) - {
        "bert.embeddings.position_ids"
    }
    assert report.buffers == ("bert.embeddings.position_ids",)
    assert all(name in "\n".join(report.lines()) for name in (*report.unused, *report.buffers))


def test_a_part_of_the_own_head_is_never_left_over() -> None:
    made = model(BERT.replace("bias: true, transform", "bias: false, transform"))
    assert "extra: cls.predictions.bias" in refused(made, checkpoint(model(BERT), "bert"))


def test_more_layers_than_the_spec_has_are_told_as_that() -> None:
    made = model(GPT2.replace("layers: 2", "layers: 1"))
    assert "decoder.layers is 1 in the spec and 2 in the file" in refused(made, checkpoint(model(GPT2), "gpt2"))


def test_what_the_family_cannot_name_is_an_error() -> None:
    made = model(LLAMA.replace("position: rope", "position: rope, qk_norm: {over: head}"))
    message = refused(made, checkpoint(model(LLAMA), "llama"))
    assert "the llama form has no place for decoder.layers.{0-1}.attention.q_norm.weight" in message


# ------------------------------------------------------------------------------------------------------------- which map


def test_unknown_names_are_an_error() -> None:
    assert "no name map knows these tensors: encoder.w1" in refused(model(LLAMA), {"encoder.w1": torch.zeros(2)})


def test_a_config_of_an_unknown_family_is_an_error() -> None:
    message = refused(model(LLAMA), checkpoint(model(LLAMA), "llama"), {"model_type": "mamba"})
    assert "there is no name map for `mamba`" in message
    assert message.partition("known: ")[2].split(", ") == sorted(
        {t for f in all_families() if f.format == "huggingface" for t in f.types}
    )


def test_a_config_that_contradicts_the_spec_is_an_error() -> None:
    config: dict[str, object] = {
        "model_type": "llama", "vocab_size": 13, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 6, "intermediate_size": 12, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    }  # fmt: skip
    made, tensors = model(LLAMA), checkpoint(model(LLAMA), "llama")
    assert read(made, tensors, config).family == "llama"
    message = refused(made, tensors, config | {"rope_theta": 5e5, "rms_norm_eps": 1e-6})
    assert "attention.rope.theta is 10000.0 in the spec and 500000.0 in config.json" in message
    assert "decoder.layers.{0-1}.attention.norms.input.eps is 1e-05 in the spec and 1e-06 in config.json" in message
    scaled = config | {"rope_scaling": {"rope_type": "spiral", "factor": 4.0}}
    assert "rope scaling of type spiral" in refused(made, tensors, scaled)


@pytest.mark.parametrize("value", ["8", None, 0, 2.5, [4, 4], True])
def test_a_config_with_an_odd_value_is_an_error(value: object) -> None:
    tensors = checkpoint(model(LLAMA), "llama")
    assert "config.json: the config" in refused(
        model(LLAMA), tensors, {"model_type": "llama", "num_attention_heads": value}
    )


# -------------------------------------------------------------------------------------------------------------- reading


def test_conversions_are_stated() -> None:
    made = model(LLAMA)
    halves = {n: t.half() for n, t in checkpoint(made, "llama").items()}
    assert read(made, halves).conversions == {"F16 to float32": len(halves)}


class Watched(Memory):
    """Counts how many of the tensors that it gave out are alive."""

    alive: list[weakref.ref[Array]]
    most = 0

    def read(self, name: str) -> Array:
        self.alive = [r for r in getattr(self, "alive", []) if r() is not None]
        self.most = max(self.most, len(self.alive) + 1)
        array = super().read(name).copy()
        self.alive.append(weakref.ref(array))
        return array


def test_one_tensor_at_a_time_is_in_memory() -> None:
    """The last one may still be held while the next is read; never more."""
    made = model(GPT2)
    source = Watched(checkpoint(made, "gpt2"))
    read_into(made, source, build(made, dtype="float32"))
    assert source.most <= 2 < len(source.tensors)


def test_shards_are_one_checkpoint(tmp_path: Path) -> None:
    made = model(LLAMA)
    tensors = checkpoint(made, "llama")
    names = list(tensors)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in shards.items():
        save_file({n: tensors[n] for n in part}, tmp_path / file)
    index = {"weight_map": {n: file for file, part in shards.items() for n in part}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    module = build(made, dtype="float32")
    assert read_into(made, open_weights(tmp_path), module).tensors == len(tensors)
    assert torch.equal(module.get_parameter("head.out.weight"), tensors["lm_head.weight"])
    (tmp_path / "b.safetensors").unlink()
    with pytest.raises(WeightsError, match=r"lacks 1 of 2 shards: b\.safetensors"):
        open_weights(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("w.safetensors", b"\x40\0\0\0\0\0\0\0{broken", WeightsError, "cannot be read"),
        ("w.gguf", b"not GGUF at all, by any means", WeightsError, "cannot be read as GGUF"),
        ("pytorch_model.bin", b"\x80\x02", UsageError, "a pickle"),
        ("w.txt", b"", UsageError, "not a weights file"),
    ],
)
def test_what_is_no_weights_file(
    tmp_path: Path, name: str, content: bytes, error: type[Exception], message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=message):
        open_weights(tmp_path / name)


def test_folders_without_one_clear_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no"):
        open_weights(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="holds no weights"):
        open_weights(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x02")
    with pytest.raises(UsageError, match=r"holds pickles alone, .*: pytorch_model\.bin"):
        open_weights(tmp_path)
    for name in ("a.safetensors", "b.safetensors"):
        save_file({"x": torch.zeros(1)}, tmp_path / name)
    with pytest.raises(UsageError, match="holds 2 weights files"):
        open_weights(tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    for weight_map in (["a.safetensors"], {"x": 1}, {"x": {"file": "a.safetensors"}}, {"x": 1, "y": "a.safetensors"}):
        index.write_text(json.dumps({"weight_map": weight_map}))
        with pytest.raises(WeightsError, match="has no weight_map of tensors to files"):
            open_weights(tmp_path)


def test_a_whole_file_beside_shards_is_not_chosen_from(tmp_path: Path) -> None:
    """transformers reads the whole file, other programs the shards: the older of them is a mistake."""
    for value, name in enumerate(("model.safetensors", "a.safetensors")):
        save_file({"x": torch.full((1,), float(value))}, tmp_path / name)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"x": "a.safetensors"}}))
    with pytest.raises(UsageError, match=r"holds both model\.safetensors and model\.safetensors\.index\.json"):
        open_weights(tmp_path)
    assert [float(open_weights(at).read("x")[0]) for at in (tmp_path / "model.safetensors", index)] == [0.0, 1.0]


# -------------------------------------------------------------------------------------------------------------- writing


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_our_own_file_is_read_by_the_safetensors_library_and_by_us(tmp_path: Path, dtype: str) -> None:
    made = model(GPT2)
    module = build(made, dtype=dtype)
    assert save(made, module, tmp_path, "the spec's text") == ["spec.yaml", "model.safetensors"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.safetensors", "spec.yaml"]
    stored = load_file(tmp_path / "model.safetensors")
    assert {n: tuple(t.shape) for n, t in stored.items()} == {t.path: t.shape for t in made.tensors()}  # tied once
    assert all(torch.equal(t, module.get_parameter(n)) for n, t in stored.items())
    again = build(made, dtype=dtype, seed=1)
    assert read_into(made, open_weights(tmp_path), again).family == "archspec"
    assert all(torch.equal(p, dict(again.stored())[n]) for n, p in module.stored())


def test_a_file_holds_the_weights_and_little_else(tmp_path: Path) -> None:
    made = model(LLAMA)
    save(made, build(made, dtype="float32"), tmp_path, "")
    size = (tmp_path / "model.safetensors").stat().st_size
    assert 0 <= size - 4 * sum(t.size for t in made.tensors()) < 4096


def test_an_interrupted_save_leaves_nothing_that_loads(tmp_path: Path) -> None:
    made = model(LLAMA)
    save(made, build(made, dtype="float32"), tmp_path, "old")

    def stop(what: str, share: float) -> None:
        if share > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save(made, build(made, dtype="float32", seed=1), tmp_path, "new", progress=stop)
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]
    with safe_open(tmp_path / "model.safetensors", "pt") as file:  # the old file, whole
        assert torch.equal(
            file.get_tensor("head.out.weight"), build(made, dtype="float32").get_parameter("head.out.weight")
        )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("position: rope", "position: rope, softcap: 3.0"), "attention.scores.softcap is 3.0"),
        (("activation: silu", "activation: silu, bias: [up]"), "ffn.bias is [up]"),
        (("norm: rmsnorm", "norm: layernorm"), "LayerNorm, the llama form has RMSNorm"),
        (("position: rope", "position: rope, qk_norm: {over: head}"), "attention.qk_norm is QKNorm"),
        (("decoder:", "decoder:\n  residual: none"), "residual.skip is none"),
    ],
)
def test_a_form_that_cannot_say_the_model_is_refused(tmp_path: Path, change: tuple[str, str], told: str) -> None:
    made = model(LLAMA.replace(*change))
    with pytest.raises(WeightsError) as caught:
        save_hf(made, build(made, dtype="float32"), tmp_path, prefer="llama")
    assert told in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_numbered_tensors_are_all_different() -> None:
    values = torch.cat([t.flatten() for t in numbered(model(LLAMA)).values()])
    assert len(values.unique()) == len(values)
