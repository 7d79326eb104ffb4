"""A model's operations back into config.json: what families write in common.

Whatever a family writes is read back and compared (`agree.must_say`), so that nothing a config cannot say is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from archspec.errors import WeightsError
from archspec.ops import rotary
from archspec.ops.attention import Attention
from archspec.ops.block import Block, Stack
from archspec.ops.embedding import LearnedPositions
from archspec.ops.ffn import Gated, Mlp
from archspec.ops.head import LmHead, NoHead, PoolerHead
from archspec.ops.latent import LatentAttention
from archspec.ops.model import Model
from archspec.ops.moe import Moe
from archspec.ops.norms import LayerNorm, RMSNorm
from archspec.ops.words import Rope

from .blocks import ACTIVATIONS

Config = dict[str, Any]


def activation_name(ours: str) -> str:
    """Hugging Face's name of an activation."""
    for theirs, name in ACTIVATIONS.items():
        if name == ours:
            return theirs
    raise WeightsError(f"Hugging Face has no name for the activation {ours}.")


def eps(norm: object) -> float:
    """A norm's eps; 0 where it has none."""
    return norm.eps if isinstance(norm, LayerNorm | RMSNorm) else 0.0


@dataclass(frozen=True)
class Layers:
    """A stack, and the attention and ffn of each of its layers."""

    stack: Stack
    attentions: tuple[Attention | LatentAttention, ...]
    ffns: tuple[Mlp | Gated | Moe, ...]

    @property
    def attention(self) -> Attention:
        """The first layer's, where it is an ordinary one."""
        first = self.attentions[0]
        if not isinstance(first, Attention):
            raise WeightsError("its attention is latent.")
        return first

    @property
    def ffn(self) -> Mlp | Gated:
        """The first dense ffn."""
        dense = [f for f in self.ffns if not isinstance(f, Moe)]
        if not dense:
            raise WeightsError("it has no dense feed-forward network.")
        return dense[0]

    @property
    def residual_dropout(self) -> float:
        """The rate at which branches are dropped."""
        block = self.stack.layers[0]
        return block.sublayers[0].residual.dropout if isinstance(block, Block) else 0.0

    @property
    def rows(self) -> int:
        """Rows of the table of learned positions."""
        position = self.stack.embedding.position
        return position.rows if isinstance(position, LearnedPositions) else 0


def layers(model: Model, family: str, of: str | None = None) -> Layers:
    """The stack that carries the head, or another by its name.

    Raises `WeightsError` where it is not there, or a layer is not one attention (and one of the other stack) and one feed-forward
    network.
    """
    stack = model.stacks().get(of or model.main[0])
    if stack is None:
        raise WeightsError(f"the {family} form has an {of}.")
    attentions, ffns = [], []
    for block in stack.layers:
        parts = block.children()
        attention, ffn = parts.get("attention"), parts.get("ffn")
        if not isinstance(attention, Attention | LatentAttention) or not isinstance(ffn, Mlp | Gated | Moe):
            raise WeightsError(f"the {family} form has layers of one attention and one feed-forward network.")
        attentions.append(attention)
        ffns.append(ffn)
    return Layers(stack, tuple(attentions), tuple(ffns))


def config(model: Model, kind: str, architecture: str, head: str, values: Config) -> Config:
    """config.json with what every family says. `head` ends the name of the class that has the family's head."""
    bare = isinstance(model.head, NoHead | PoolerHead)
    return {
        "model_type": kind,
        "architectures": [architecture + ("Model" if bare else head)],
        "vocab_size": model.main[1].embedding.vocab,
        "tie_word_embeddings": isinstance(model.head, LmHead) and model.head.tied,
        **values,
    }


def causal(model: Model, length: int | None, kind: str, architecture: str, values: Config) -> Config:
    """The same for a decoder with the usual names, without its attention and ffn."""
    stack = model.main[1]
    usual = {
        **({"max_position_embeddings": length} if length else {}),
        "hidden_size": stack.embedding.width,
        "num_hidden_layers": len(stack.layers),
        "rms_norm_eps": eps(stack.final_norm),
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    return config(model, kind, architecture, "ForCausalLM", usual | values)


def grouped(attention: Attention) -> Config:
    """Heads of an ordinary attention."""
    return {
        "num_attention_heads": attention.heads,
        "num_key_value_heads": attention.kv_heads,
        "head_dim": attention.head_dim,
        "attention_dropout": attention.scores.dropout,
    }


def rope_parameters(rope: Rope | None) -> Config:
    """A rotation as rope_parameters. Raises `WeightsError` where it has no name for it."""
    if rope is None:
        raise WeightsError("it has layers without rotary positions.")
    return {"rope_theta": rope.theta, **_scaling(rope.scaling)}


def _scaling(s: rotary.Scaling | None) -> Config:
    match s:
        case None:
            return {"rope_type": "default"}
        case rotary.Linear():
            return {"rope_type": "linear", "factor": s.factor}
        case rotary.Dynamic():
            return {"rope_type": "dynamic", "factor": s.factor}
        case rotary.Ramp():
            return {
                "rope_type": "llama3", "factor": s.factor, "original_max_position_embeddings": s.original_context,
                "low_freq_factor": s.low_frequency, "high_freq_factor": s.high_frequency,
            }  # fmt: skip
        case rotary.Yarn():
            return {
                "rope_type": "yarn", "factor": s.factor, "original_max_position_embeddings": s.original_context,
                "beta_fast": s.beta_fast, "beta_slow": s.beta_slow, "truncate": s.truncate,
                "attention_factor": s.magnitude,
            }  # fmt: skip
        case rotary.LongRope():
            return {
                "rope_type": "longrope", "original_max_position_embeddings": s.original_context,
                "short_factor": list(s.short), "long_factor": list(s.long), "attention_factor": s.magnitude,
            }  # fmt: skip
    raise WeightsError(f"Hugging Face has no name for the scaling {type(s).__name__}.")


def sliding(attentions: tuple[Attention | LatentAttention, ...]) -> Config:
    """Windows by layer: layer_types, and the one sliding_window."""
    windows = [a.scores.mask.window for a in attentions]
    sizes = {w for w in windows if w}
    if len(sizes) > 1 or any(a.scores.mask.chunk for a in attentions):
        raise WeightsError("its layers have windows of more than one kind.")
    return {
        "sliding_window": next(iter(sizes), None),
        "layer_types": ["sliding_attention" if w else "full_attention" for w in windows],
    }
