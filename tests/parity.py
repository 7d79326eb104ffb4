"""Families of transformers as tiny random checkpoints, and what archspec makes of them. One file a family: tests/families/."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import torch
import transformers
from reference import built, computed, said
from torch import Tensor

from archspec.compiler.lower import lower
from archspec.compiler.resolve import resolve_text
from archspec.exporters.torch.module import Transformer, build
from archspec.exporters.weights.imports import spec_of
from archspec.exporters.weights.load import LoadReport, read_into
from archspec.exporters.weights.source import open_weights
from archspec.language.model import Spec
from archspec.ops.head import PoolerHead
from archspec.ops.model import Form, Model

VOCAB = 61
Side = Literal["left", "right"]
#: Saved buffers that act as weights, by the ends of their names.
BUFFERS = ("e_score_correction_bias", "balancing_biases", "layer_scalar", "expert_bias", "final_logits_bias")


def base(**changes: Any) -> dict[str, Any]:
    """A small decoder in the usual names."""
    usual = {
        "vocab_size": VOCAB, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 6,
        "num_key_value_heads": 2, "head_dim": 4, "max_position_embeddings": 48, "pad_token_id": 0, "bos_token_id": 1,
        "eos_token_id": 2,
    }  # fmt: skip
    return usual | changes


def moe(**changes: Any) -> dict[str, Any]:
    """The same with experts; names that a config class does not have are left out by the case."""
    experts = {
        "num_experts": 5, "num_local_experts": 5, "n_routed_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 12,
    }  # fmt: skip
    return base(**experts) | changes


def mla(**changes: Any) -> dict[str, Any]:
    """The same with latent attention."""
    latent = {
        "num_key_value_heads": 6, "head_dim": 4, "q_lora_rank": 10, "kv_lora_rank": 8, "qk_nope_head_dim": 6,
        "qk_rope_head_dim": 4, "v_head_dim": 5,
    }  # fmt: skip
    return moe(**latent) | changes


@dataclass(frozen=True)
class Case:
    """One tiny checkpoint.

    name: starts with the family's. config, model: classes of transformers, at its top or in `module` of its models.
    reason: why archspec cannot say it; the import must then refuse it. hf: is `--as hf` written for it?
    buffers_count: does transformers hold the selection biases of routers as parameters? attention: its implementation.
    tables: does it make a table in float32 that is float64 here?

    form: of the model. overrides: what is set over the imported spec, as by --set: a head that no config tells of. unused: their
    tensors that the spec then has no part for. own_head: has it a head of its own though its class makes a tied one? padding: the
    sides on which an encoder's text may be padded; those on which both count its positions alike.
    """

    name: str
    config: str
    model: str
    values: Mapping[str, Any] = field(default_factory=base)
    module: str | None = None
    reason: str | None = None
    hf: bool = False
    onnx: bool = True
    buffers_count: bool = False
    attention: str = "eager"
    tables: bool = False
    form: Form = "decoder"
    overrides: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    own_head: bool = False
    padding: tuple[Side, ...] = ("right",)

    def __str__(self) -> str:
        return self.name

    def class_of(self, name: str, kind: str) -> Any:
        if self.module is None:
            return getattr(transformers, name)
        return getattr(importlib.import_module(f"transformers.models.{self.module}.{kind}_{self.module}"), name)

    def made(self) -> transformers.PreTrainedModel:
        """The model in float64, every weight moved off its initial value."""
        cls = self.class_of(self.config, "configuration")
        known = (
            {f for c in cls.__mro__ for f in vars(c).get("__annotations__", {})}
            | set(cls.attribute_map)
            | set(dir(cls))
        )
        said = {key: value for key, value in self.values.items() if key in known or key not in mla()}
        config = cls(**{key: value for key, value in said.items() if cls.attribute_map.get(key) not in said})
        torch.manual_seed(3)
        model = built(self.class_of(self.model, "modeling"), config, self.attention, self.tables)
        if self.own_head:
            tied = model.get_output_embeddings()
            model.set_output_embeddings(
                torch.nn.Linear(tied.in_features, tied.out_features, False, dtype=torch.float64)
            )
        return perturbed(model)


def perturbed(model: transformers.PreTrainedModel) -> transformers.PreTrainedModel:
    """Fresh norms are 1 and fresh biases 0, which hides mistakes: add noise to everything that is saved.

    The values are float32 numbers: transformers keeps some tensors in float32 whatever is asked for.
    """
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for _, tensor in [
            *((n, p) for n, p in model.named_parameters() if n not in computed(model)),
            *((n, b) for n, b in model.named_buffers() if n.endswith(BUFFERS)),
        ]:
            tensor.copy_((tensor + 0.2 * torch.randn(tensor.shape, generator=generator)).float())
    return model


@dataclass(frozen=True)
class Texts:
    """What both sides read: B T ids, beside an encoder also B M of its source. Masks are 1 for tokens and 0 for padding."""

    ids: Tensor
    mask: Tensor | None = None
    types: Tensor | None = None
    source: Tensor | None = None
    source_mask: Tensor | None = None

    @property
    def theirs(self) -> dict[str, Tensor]:
        """As arguments of transformers."""
        reads = {"input_ids": self.ids, "attention_mask": self.mask, "token_type_ids": self.types}
        if self.source is not None:
            reads = {"input_ids": self.source, "attention_mask": self.source_mask}
            reads |= {"decoder_input_ids": self.ids, "decoder_attention_mask": self.mask}
        return {name: value for name, value in reads.items() if value is not None}

    @property
    def ours(self) -> dict[str, Tensor]:
        """As arguments of the built model, beside the ids."""
        reads = {"mask": self.mask, "token_types": self.types, "source": self.source, "source_mask": self.source_mask}
        return {name: value for name, value in reads.items() if value is not None}

    def of_tokens(self, out: Tensor) -> Tensor:
        """What was said of the tokens, without the padding; a text's own vector or labels as they are."""
        return out if self.mask is None or out.ndim < 3 else out[self.mask.bool()]


class Parity:
    """A case's checkpoint, written by transformers, and ours: imported, built in float64, loaded. Each made when asked for."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case, self.folder = case, folder

    @cached_property
    def theirs(self) -> transformers.PreTrainedModel:
        model = self.case.made()
        model.save_pretrained(self.folder)
        return model

    @cached_property
    def text(self) -> str:
        """The imported spec."""
        assert self.theirs is not None
        return spec_of(self.folder)

    @cached_property
    def spec(self) -> Spec:
        return resolve_text(self.text, "spec.yaml", overrides=self.case.overrides).spec

    @cached_property
    def model(self) -> Model:
        return lower(self.spec)

    @cached_property
    def loaded(self) -> tuple[Transformer, LoadReport]:
        module = build(self.model, dtype="float64").eval()
        return module, read_into(self.model, open_weights(self.folder), module, self.spec.context_length)

    @property
    def ours(self) -> Transformer:
        return self.loaded[0]

    @property
    def parameters(self) -> int:
        """Theirs, of the parts that the spec has. A bias of the logits is a buffer there, and a parameter here."""
        weights = [*self.theirs.named_parameters()]
        weights += [(n, b) for n, b in self.theirs.named_buffers() if n.endswith("final_logits_bias")]
        left = {*self.case.unused, *computed(self.theirs)}
        return sum(w.numel() for name, w in weights if name not in left)

    def ids(self, batch: int = 2, length: int = 13, seed: int = 1) -> Tensor:
        return torch.randint(3, VOCAB, (batch, length), generator=torch.Generator().manual_seed(seed))

    def texts(self, padded: Side | None = None) -> Texts:
        """Two texts, and two sources for an encoder beside a decoder. padded: the side on which what an encoder reads is padded."""
        ids, mask = self.ids(), None
        beside = self.case.form == "encoder_decoder"
        read = self.ids(length=11, seed=2) if beside else ids
        if padded:
            mask = torch.ones_like(read)
            mask[1, slice(None, 4) if padded == "left" else slice(-4, None)] = 0
            read = read.masked_fill(mask == 0, self.theirs.config.pad_token_id)
        if beside:
            return Texts(ids, source=read, source_mask=mask)
        types = self.model.main[1].embedding.token_types
        generator = torch.Generator().manual_seed(3)
        return Texts(read, mask, torch.randint(types, read.shape, generator=generator) if types else None)

    @torch.no_grad()
    def said(self, texts: Texts) -> Tensor:
        """By ours, of the tokens."""
        return texts.of_tokens(self.ours(texts.ids, **texts.ours))

    def expected(self, texts: Texts, model: transformers.PreTrainedModel | None = None) -> Tensor:
        """What transformers says of the tokens, or another model of it."""
        cached = {} if self.case.form == "encoder" else {"use_cache": False}
        pooled = isinstance(self.model.head, PoolerHead)
        return texts.of_tokens(said(model or self.theirs, pooled=pooled, **texts.theirs, **cached))


def cases() -> list[Case]:
    """All cases, by the files in tests/families."""
    files = sorted((Path(__file__).parent / "families").glob("*.py"))
    return [case for file in files for case in _module(file).CASES]


def _module(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"family_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
