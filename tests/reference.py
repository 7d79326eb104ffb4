"""Tiny models of transformers, offline and random, as witnesses: in float64, with every parameter moved off its initial value."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

import torch
import transformers
from torch import Tensor
from torch.overrides import TorchFunctionMode

transformers.utils.logging.disable_progress_bar()


class Exact64(TorchFunctionMode):
    """In this context float32 means float64: what transformers casts to float32 (norms, softmax, rotations) stays exact."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is torch.Tensor.float:
            return args[0].double()
        wide = lambda x: torch.float64 if x is torch.float32 else x  # noqa: E731
        return func(*map(wide, args), **{key: wide(value) for key, value in (kwargs or {}).items()})


def tiny(kind: str, **overrides: Any) -> transformers.PreTrainedModel:
    """A small random model, every weight perturbed: fresh norms are 1 and fresh biases 0, which hides mistakes."""
    config = CONFIGS[kind]()
    for key, value in overrides.items():
        setattr(config, key, value)
    torch.manual_seed(3)
    model = built(getattr(transformers, CLASSES[kind]), config)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():  # tied ones once
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return model


def exact(model: transformers.PreTrainedModel, tables: bool = False) -> transformers.PreTrainedModel:
    """A loaded model again, with its tables (of rotations) in float64 too."""
    again = built(type(model), model.config, tables=tables)
    if head := model.get_output_embeddings():
        again.set_output_embeddings(head)  # it may be its own where the class makes a tied one
    state = {name: tensor for name, tensor in model.state_dict().items() if name not in computed(model)}
    again.load_state_dict(again.state_dict() | state)
    return again


def computed(model: transformers.PreTrainedModel) -> set[str]:
    """Tables of sines, which transformers holds as parameters."""
    tables = (
        n for n, m in model.named_modules() if isinstance(m, torch.nn.Embedding) and "Sinusoidal" in type(m).__name__
    )
    return {f"{name}.weight" for name in tables}


def built(
    cls: type[transformers.PreTrainedModel],
    config: transformers.PreTrainedConfig,
    attention: str = "eager",
    tables: bool = False,
) -> Any:
    """The model in float64, with plain attention unless another is asked for, and experts one by one.

    tables: those that it makes without saying their type in float64 too (a constant of Gemma's is float32 by design).
    """
    config._attn_implementation, config._experts_implementation = attention, "eager"
    with Exact64(), _doubles() if tables else nullcontext():
        return cls(config).double().eval()


@contextmanager
def _doubles() -> Iterator[None]:
    """What is made without saying its type is float64, and so is what is made as a `FloatTensor`."""
    before, single = torch.get_default_dtype(), torch.FloatTensor
    torch.set_default_dtype(torch.float64)
    torch.FloatTensor = torch.DoubleTensor
    try:
        yield
    finally:
        torch.set_default_dtype(before)
        torch.FloatTensor = single


def logits(model: transformers.PreTrainedModel, ids: Tensor, **inputs: Tensor) -> Tensor:
    """What the model says, to the precision of float64; its last layer where it has no head."""
    return said(model, input_ids=ids, **inputs)


def said(model: transformers.PreTrainedModel, pooled: bool = False, **inputs: Any) -> Tensor:
    """The same of any inputs. pooled: what its pooler says."""
    with Exact64(), _doubles(), torch.no_grad():
        out = model(**inputs)
    if pooled:
        return out.pooler_output
    if "start_logits" in out:  # two labels for every token, apart
        return torch.stack((out.start_logits, out.end_logits), -1)
    return out.logits if "logits" in out else out.last_hidden_state


CONFIGS: dict[str, Callable[[], transformers.PreTrainedConfig]] = {
    "gpt2": lambda: transformers.GPT2Config(
        vocab_size=61, n_positions=24, n_embd=32, n_layer=2, n_head=4, n_inner=80, bos_token_id=0, eos_token_id=1
    ),
    "bert": lambda: transformers.BertConfig(
        vocab_size=61, max_position_embeddings=24, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=80,
    ),
    "llama": lambda: transformers.LlamaConfig(
        vocab_size=61, max_position_embeddings=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=12, intermediate_size=80, rms_norm_eps=1e-5, bos_token_id=0, eos_token_id=1,
        rope_parameters={"rope_type": "default", "rope_theta": 5000.0},
    ),
}  # fmt: skip
CONFIGS["bert bare"] = CONFIGS["bert"]
CONFIGS["llama tied"] = lambda: _with(CONFIGS["llama"](), tie_word_embeddings=True, attention_bias=True)
CLASSES = {
    "gpt2": "GPT2LMHeadModel",
    "bert": "BertForMaskedLM",
    "bert bare": "BertModel",
    "llama": "LlamaForCausalLM",
    "llama tied": "LlamaForCausalLM",
}


def _with(config: transformers.PreTrainedConfig, **values: Any) -> transformers.PreTrainedConfig:
    for key, value in values.items():
        setattr(config, key, value)
    return config
