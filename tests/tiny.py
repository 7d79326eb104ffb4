"""Tiny models, one for each way of being different, written as a user would."""

from __future__ import annotations

from functools import cache

from archspec.compiler.lower import lower
from archspec.compiler.resolve import resolve_text
from archspec.ops.model import Model

_TOP = "archspec: 1\nvocab_size: 61\ncontext_length: 24\nd_model: 32\n"

TINY = {
    "gpt2": """
        norm: {kind: layernorm}
        embedding: {position: learned}
        decoder:
          layers: 2
          attention: {heads: 4, bias: true}
          ffn: {kind: mlp, width: 48, activation: gelu_tanh, bias: true}
        head: {tied: true}
    """,
    "llama": """
        norm: {kind: rmsnorm}
        decoder:
          attention: {heads: 4, kv_heads: 2, position: rope, qk_norm: {over: head}}
          ffn: {kind: gated, width: 48, activation: silu}
          layers:
            - {repeat: 2, attention: {window: 4}}
            - {}
        head: {tied: false}
    """,
    "sandwich": """
        norm: {kind: rmsnorm, weight: 1+w}
        embedding: {scale: sqrt(d_model)}
        decoder:
          layers: 2
          placement: sandwich
          attention: {heads: 2, head_dim: 24, v_head_dim: 20, position: rope, softcap: 3.0, window: 5}
          ffn: {kind: gated, width: 48, activation: gelu_tanh}
        head: {tied: true, softcap: 4.0}
    """,
    "parallel": """
        norm: {kind: layernorm, bias: false}
        decoder:
          layers: 2
          parallel: two_norms
          attention: {heads: 4, position: {kind: rope, dim: 4, pairing: interleaved}, bias: [q, v], clip: 0.5}
          ffn: {kind: mlp, width: 48, activation: relu_squared}
        head: {tied: false, bias: true}
    """,
    "bert": """
        norm: {kind: layernorm, eps: 1e-12}
        embedding: {position: learned, token_types: 2, norm: {kind: layernorm, eps: 1e-12}}
        encoder:
          layers: 2
          placement: post
          attention: {heads: 4, bias: true}
          ffn: {kind: mlp, width: 48, activation: gelu, bias: true}
        head: {tied: true, bias: true, transform: {activation: gelu}}
    """,
    "seq2seq": """
        norm: {kind: layernorm}
        embedding: {position: sinusoidal, scale: sqrt(d_model)}
        encoder:
          layers: 2
          placement: post
          attention: {heads: 4, window: 5}
          ffn: {kind: mlp, width: 48, activation: relu, bias: true}
        decoder:
          layers: 2
          placement: post
          attention: {heads: 4}
          ffn: {kind: mlp, width: 40, activation: relu, bias: true}
        head: {tied: true}
    """,
    "t5like": """
        norm: {kind: rmsnorm}
        embedding: {share: none}
        encoder:
          layers: 1
          attention: {heads: 4, position: rope}
          ffn: {kind: gated, width: 40, activation: gelu}
        decoder:
          layers: 2
          attention: {heads: 4, kv_heads: 1, position: {kind: rope, theta: 500.0}}
          ffn: {kind: gated, width: 40, activation: gelu}
        head: {tied: false}
    """,
    "albert": """
        norm: {kind: layernorm}
        embedding: {position: learned, projection: {dim: 16, of: sum, bias: true}}
        encoder:
          layers: [{repeat: 3, weights: shared}]
          placement: post
          attention: {heads: 4, bias: true}
          ffn: {kind: mlp, width: 48, activation: gelu_tanh, bias: true}
        head: {tied: true, bias: true, transform: {activation: gelu_tanh}}
    """,
    "shared": """
        norm: {kind: rmsnorm}
        decoder:
          layers: [{repeat: 2, weights: shared, layers: [{attention: {window: 3}}, {}]}]
          attention: {heads: 2, position: rope}
          ffn: {kind: mlp, width: 48, activation: quick_gelu}
        head: {tied: true}
    """,
    "prefix": """
        norm: {kind: rmsnorm}
        decoder:
          layers: 2
          attention: {heads: 4, kv_heads: 2, position: rope, mask: prefix}
          ffn: {kind: gated, width: 48, activation: silu}
        head: {tied: true}
    """,
    "chunk": """
        norm: {kind: rmsnorm}
        decoder:
          attention: {heads: 4, position: rope}
          ffn: {kind: gated, width: 48, activation: mish}
          layers:
            - {attention: {window: {kind: chunk, size: 4}}}
            - {}
        head: {tied: false}
    """,
    "odd": """
        norm: {kind: layernorm, eps_outside: true, weight: 1+w}
        embedding: {position: {kind: sinusoidal, layout: halves, offset: 2, count: unpadded}}
        decoder:
          layers: 2
          residual: {branch_scale: 0.7, skip_scale: 0.9}
          attention:
            heads: 4
            kv_heads: 2
            qk_norm: {over: each_head, norm: {kind: rmsnorm}}
            v_norm: {kind: l2norm}
            out_norm: {kind: rmsnorm}
          ffn: {kind: gated, width: 48, activation: silu, clamp: 0.8, up_shift: 1.0, mid_norm: {kind: rmsnorm}}
        head: {tied: true, scale: 0.5}
    """,
    "pooler": """
        norm: {kind: layernorm}
        embedding: {position: learned}
        encoder:
          layers: 1
          attention: {heads: 4, position: rope}
          ffn: {kind: mlp, width: 48, activation: gelu}
        head: {kind: pooler}
    """,
    "classifier": """
        norm: {kind: layernorm}
        embedding: {position: learned}
        encoder:
          layers: 1
          attention: {heads: 4}
          ffn: {kind: mlp, width: 48, activation: gelu}
        head: {kind: classifier, labels: 3, pool: mean}
    """,
}  # fmt: skip

DECODERS = ("gpt2", "llama", "sandwich", "parallel", "shared", "prefix", "chunk", "odd")
SEQ2SEQ = ("seq2seq", "t5like")
ENCODERS = ("bert", "albert", "pooler", "classifier")


def text(name: str) -> str:
    """The whole spec of that name."""
    body = "\n".join(line.removeprefix("        ") for line in TINY[name].splitlines())
    return f"{_TOP}name: {name}\n{body}"


@cache
def tiny(name: str, *overrides: str) -> Model:
    """The model of that name, with `path=value` overrides."""
    return lower(resolve_text(text(name), f"{name}.yaml", overrides).spec)
