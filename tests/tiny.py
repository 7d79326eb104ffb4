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
    "labels": """
        norm: {kind: layernorm}
        embedding: {position: learned}
        encoder:
          layers: 1
          attention: {heads: 4}
          ffn: {kind: mlp, width: 48, activation: gelu}
        head: {kind: classifier, labels: 3, pool: first, transform: {activation: gelu, bias: false, norm: {bias: false}}}
    """,
    "t5": """
        norm: {kind: rmsnorm}
        block:
          attention: {heads: 4, head_dim: 6, scale: 1, position: {kind: relative_buckets, buckets: 8, max_distance: 12}}
          ffn: {kind: mlp, width: 48, activation: relu}
        encoder: {layers: 2}
        decoder: {layers: 2}
        head: {tied: true, scale: 1/sqrt(d_model)}
    """,
    "alibi": """
        norm: {kind: layernorm}
        embedding: {norm: layernorm}
        decoder:
          layers:
            - {}
            - {attention: {position: {order: before_scale, max_bias: 4.0}, window: 4}}
          attention: {heads: 6, kv_heads: 2, head_dim: 8, bias: true, position: alibi}
          ffn: {kind: mlp, width: 48, activation: gelu, bias: true}
        head: {tied: true}
    """,
    "buckets": """
        norm: {kind: rmsnorm}
        decoder:
          layers: 2
          attention: {heads: 4, kv_heads: 2, sinks: true, position: {kind: relative_buckets, buckets: 8, max_distance: 12, table: per_layer}}
          ffn: {kind: mlp, width: 48, activation: gelu}
        head: {tied: false}
    """,
    "deberta": """
        norm: {kind: layernorm}
        embedding: {norm: layernorm}
        encoder:
          layers: 2
          placement: post
          attention:
            heads: 4
            bias: true
            position: {kind: disentangled, buckets: 6, max_distance: 12, projections: shared, norm: layernorm}
          ffn: {kind: mlp, width: 48, activation: gelu, bias: true}
        head: {tied: true, bias: true, transform: {activation: gelu}}
    """,
    "distances": """
        norm: {kind: rmsnorm}
        decoder:
          attention: {heads: 4, kv_heads: 2, bias: true, qk_norm: {over: head}, position: {kind: disentangled, buckets: 5}}
          ffn: {kind: gated, width: 48, activation: silu}
          layers:
            - {attention: {window: 4, softcap: 2.0}}
            - {attention: {position: {terms: [p2c], projections: shared}}}
        head: {tied: false}
    """,
    "sinks": """
        norm: {kind: rmsnorm}
        decoder:
          layers:
            - {attention: {window: 4, gate: {per: head, bias: value}}, ffn: {residual: {branch_scale: 0.7, skip_scale: 0.9}}}
            - {attention: {gate: {activation: silu, bias: head}, temperature: {growth: power, slope: 0.3, period: 3}}}
          attention: {heads: 4, kv_heads: 2, sinks: true, position: {kind: rope, scaling: {kind: yarn, factor: 4, original_context: 6}}}
          ffn: {kind: gated, width: 48, activation: silu}
        head: {tied: false}
    """,
    "moe": """
        norm: {kind: rmsnorm}
        decoder:
          attention: {heads: 4, kv_heads: 2, position: {kind: rope, scaling: {kind: ramp, factor: 4, original_context: 12}}}
          ffn:
            kind: moe
            experts: 6
            top_k: 2
            expert: {kind: gated, width: 16, activation: silu}
            router: {normalize: true}
          layers:
            - {ffn: {kind: gated, width: 48, activation: silu}}
            - {}
            - ffn: {router: {normalize: false, bias: true, applies_to: input}, shared: {width: 24, gate: sigmoid}}
        head: {tied: false}
    """,
    "experts": """
        norm: {kind: rmsnorm}
        decoder:
          attention: {heads: 4, position: {kind: rope, scaling: {kind: ntk, alpha: 3}}}
          ffn:
            kind: moe
            experts: 8
            top_k: 3
            expert: {kind: mlp, width: 16, activation: relu_squared, bias: true}
            shared: {width: 16}
            router: {score: sigmoid, selection_bias: score, groups: {count: 4, keep: 2, score: top2_sum}, normalize: true, scale: 2.5}
          layers:
            - {}
            - {ffn: {router: {score: softmax, selection_bias: logit, groups: {score: max}}, latent: {dim: 20, norm: rmsnorm}}}
        head: {tied: false}
    """,
    "mixer": """
        norm: {kind: rmsnorm}
        decoder:
          attention: {heads: 4, position: rope}
          ffn:
            kind: moe
            experts: 6
            top_k: 2
            expert: {kind: mlp, width: 16, activation: xielu}
            router: {score: sparsemixer, within: 0.5, normalize: false}
          layers:
            - {}
            - {ffn: {kind: gated, width: 24, activation: xielu}}
            - {ffn: {kind: mlp, width: 24, activation: gelu_tanh_8}}
        head: {tied: false}
    """,
    "mla": """
        norm: {kind: rmsnorm}
        decoder:
          attention:
            kind: mla
            heads: 4
            q_lora_rank: 12
            kv_lora_rank: 10
            qk_nope_head_dim: 8
            qk_rope_head_dim: 4
            v_head_dim: 6
            position: {kind: rope, pairing: interleaved, scaling: {kind: yarn, factor: 4, original_context: 6, mscale_on: scores}}
          ffn: {kind: gated, width: 48, activation: silu}
          layers:
            - {}
            - {attention: {q_lora_rank: none, window: 5, temperature: {slope: 0.1, period: 4, offset: 0}}}
        head: {tied: false}
    """,
    "gates": """
        norm: {kind: rmsnorm, weight: 1+w}
        decoder:
          placement: sandwich
          residual: {kind: gated, temperature: 0.3, floor: 0.001}
          attention: {heads: 4, kv_heads: 2, position: rope, head_norm: {weight: none}, branch_norm: {weight: none, eps: 1e-8}}
          ffn:
            kind: moe
            experts: 6
            top_k: 2
            expert: {kind: gated, width: 16, activation: silu, clamp: 0.4, clamp_at: activation}
            shared: {width: 12, clamp: 0.2}
            router: {score: sigmoid, normalize: true, input_scale: 0.4}
            expert_norm: {weight_first: true}
            branch_norm: {weight_first: true}
          layers:
            - {}
            - {ffn: {latent: {dim: 20}, shared: {clamp: none}}}
            - {attention: {residual: {kind: add, branch_scale: 0.5}}, ffn: {kind: gated, width: 24, activation: silu}}
        head: {tied: false}
    """,
    "latents": """
        norm: {kind: rmsnorm}
        block:
          attention:
            kind: mla
            heads: 2
            kv_lora_rank: 10
            qk_nope_head_dim: 8
            qk_rope_head_dim: 4
            v_head_dim: 6
            position: rope
            temperature: {slope: 0.2, period: 2}
          ffn: {kind: mlp, width: 40, activation: relu}
        encoder: {layers: 1}
        decoder: {layers: 1, cross_attention: {heads: 4}}
        head: {tied: true}
    """,
    "stretched": """
        norm: {kind: rmsnorm}
        decoder:
          attention: {heads: 4, position: {kind: rope, theta: 100.0}}
          ffn: {kind: gated, width: 48, activation: silu}
          layers:
            - {attention: {position: {scaling: {kind: linear, factor: 2}}}}
            - {attention: {position: {scaling: {kind: proportional, share: 0.5, factor: 1.5}}}}
            - {attention: {position: {scaling: {kind: yarn, factor: 3, original_context: 8, truncate: false, mscale: 0.7}}}}
        head: {tied: false}
    """,
}  # fmt: skip

#: Rotations that depend on the run's own length: a cached key keeps the angle of the length it was made at.
GROWING = {
    "dynamic": """
        norm: {kind: rmsnorm}
        decoder:
          layers: 2
          attention: {heads: 4, position: {kind: rope, scaling: {kind: dynamic, factor: 2, original_context: 6}}}
          ffn: {kind: gated, width: 48, activation: silu}
        head: {tied: false}
    """,
    "longrope": """
        norm: {kind: rmsnorm}
        decoder:
          layers: 2
          attention:
            heads: 4
            position:
              kind: rope
              scaling: {kind: longrope, original_context: 6, short: [1.0, 1.1, 1.3, 1.5], long: [1.0, 2.0, 3.0, 5.0], factor: 4}
          ffn: {kind: gated, width: 48, activation: silu}
        head: {tied: false}
    """,
}

DECODERS = (
    "gpt2", "llama", "sandwich", "parallel", "shared", "prefix", "chunk", "odd", "alibi", "buckets", "sinks", "moe", "experts",
    "mixer", "mla", "gates", "stretched", "distances",
)  # fmt: skip
SEQ2SEQ = ("seq2seq", "t5like", "t5", "latents")
ENCODERS = ("bert", "deberta", "albert", "pooler", "classifier", "labels")


def text(name: str) -> str:
    """The whole spec of that name."""
    body = "\n".join(line.removeprefix("        ") for line in {**TINY, **GROWING}[name].splitlines())
    return f"{_TOP}name: {name}\n{body}"


@cache
def tiny(name: str, *overrides: str) -> Model:
    """The model of that name, with `path=value` overrides."""
    return lower(resolve_text(text(name), f"{name}.yaml", overrides).spec)
