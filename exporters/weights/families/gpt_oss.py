"""gpt-oss: sinks, a window in every second layer; biased experts with a clamped gate, a softmax over those chosen."""

from __future__ import annotations

from ..blocks import Block, Written, decoder, each, every, grouped, layer_types, moe, rmsnorm
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, PRE_NORMS, decoder_family
from ..rotary import rope
from ..transforms import Interleave, Transpose

_ROPE = {
    "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
    "original_max_position_embeddings": 4096,
}  # fmt: skip


def read(c: Ledger) -> Written:
    """GptOssConfig."""
    c.known(swiglu_alpha=1.702)  # quick_gelu
    c.ignore("hidden_act", "experts_per_token", "initial_context_length")
    window, types = c.stated("sliding_window", 128), layer_types(c, every(2))
    own = {
        **grouped(c, kv_heads=8, head_dim=64),
        "bias": c.get("attention_bias", True),
        "sinks": True,
        "position": rope(c, theta=150000.0, head_dim=c.whole("head_dim", 64), default=_ROPE),
    }
    expert = {
        "kind": "gated",
        "width": c.whole("intermediate_size", 2880),
        "activation": "quick_gelu",
        "bias": True,
        "clamp": float(c.get("swiglu_limit", 7.0)),
        "up_shift": 1.0,
    }
    ffn = moe(c, expert, {"normalize": True, "bias": True})

    def block(i: int) -> Block:
        return {"attention": {**own, "window": window if types[i] == "sliding_attention" else None}, "ffn": ffn}

    return decoder(c, norm=rmsnorm(c, 1e-5), layers=each(c, block), tied=False)


_EXPERTS = (
    rule("ffn.router.*", "mlp.router.*"),
    rule("ffn.expert.gate.weight ffn.expert.up.weight", "mlp.experts.gate_up_proj", Interleave(1), Transpose()),
    rule("ffn.expert.gate.bias ffn.expert.up.bias", "mlp.experts.gate_up_proj_bias", Interleave(1)),
    rule("ffn.expert.down.weight", "mlp.experts.down_proj", Transpose()),
    rule("ffn.expert.down.bias", "mlp.experts.down_proj_bias"),
)

FAMILY = decoder_family(
    "gpt_oss", read, (*PRE_NORMS, *ATTENTION, rule("attention.sinks", "self_attn.sinks"), *_EXPERTS)
)
