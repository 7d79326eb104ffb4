"""What other tools, configs and people write, and where it goes here: the tables behind the remedies of diagnostics.

Names are words in one text. A name with a dot holds in one section only: `attention.dropout` is a `dropout` under `attention:`.
A path begins at the top of a spec or in a block (`attention.heads` is `decoder.attention.heads`); a kind in brackets is the one
that a mapping on the way must have. `{}` stands for the value as it was written.
"""

from __future__ import annotations

#: Where a key goes -> what it is called elsewhere.
PLACES = {
    "vocab_size": "vocab n_vocab vocabulary_size padded_vocab_size src_vocab_size tgt_vocab_size source_vocab_size "
    "target_vocab_size encoder_vocab_size decoder_vocab_size",
    "context_length": "max_position_embeddings n_positions max_seq_len max_seq_length max_sequence_length max_length n_ctx "
    "block_size seq_len seq_length context",
    "d_model": "hidden_size n_embd embed_dim spec.hidden_dim model_dim spec.dim spec.width",
    "dtype": "torch_dtype precision",
    "layers": "num_layers n_layer n_layers num_hidden_layers depth num_blocks",
    "encoder.layers": "encoder_layers num_encoder_layers",
    "decoder.layers": "decoder_layers num_decoder_layers",
    "repeat": "entry.times entry.count entry.repeats",
    "placement": "norm_placement norm_position norm_first pre_norm normalize_before do_layer_norm_before",
    "parallel": "use_parallel_residual",
    "residual.branch_scale": "residual_multiplier",
    "attention": "attn self_attention self_attn",
    "attention.heads": "num_heads num_head n_head n_heads nhead num_attention_heads attention_heads",
    "attention.kv_heads": "num_kv_heads num_kv_head n_kv_heads n_head_kv num_key_value_heads num_query_groups kv_groups "
    "multi_query mqa",
    "attention.head_dim": "d_head d_kv dim_head head_size attention_head_dim kv_channels",
    "attention.bias": "attention_bias qkv_bias use_qkv_bias",
    "attention.scale": "query_pre_attn_scalar attention_multiplier",
    "attention.softcap": "attention.soft_cap attn_logit_softcapping attention.logit_softcap",
    "attention.clip": "clip_qkv",
    "attention.qk_norm": "use_qk_norm qk_layernorm qk_layer_norm",
    "attention.window": "sliding_window window_size attention_window",
    "attention.position": "attention.pos attention.pos_emb attention.positions positional_encoding",
    "attention.position[rope].theta": "rope_theta rope_base rotary_base rotary_emb_base position.base theta",
    "attention.position[rope].dim": "rotary_dim partial_rotary_factor rotary_pct",
    "attention.position[rope].scaling": "rope_scaling",
    "scaling.original_context": "scaling.original_max_position_embeddings",
    "scaling.low_frequency": "scaling.low_freq_factor",
    "scaling.high_frequency": "scaling.high_freq_factor",
    "scaling.kind": "scaling.type scaling.rope_type",
    "cross_attention": "cross_attn encoder_attention",
    "ffn": "mlp feed_forward feedforward",
    "ffn.width": "intermediate_size d_ff dim_feedforward ffn_dim ffn_hidden_size n_inner dim_ff ffn.hidden_dim inner_dim",
    "ffn.activation": "ffn.act hidden_act act_fn activation_function hidden_activation feed_forward_proj",
    "ffn.bias": "mlp_bias",
    "ffn[moe].experts": "num_experts n_experts num_local_experts n_routed_experts",
    "ffn[moe].top_k": "num_experts_per_tok num_experts_per_token experts_per_token moe_top_k moe_k",
    "ffn[moe].expert.width": "moe_intermediate_size moe_ffn_hidden_size intermediate_size",
    "ffn[moe].shared.width": "n_shared_experts num_shared_experts shared_experts shared_expert_intermediate_size",
    "ffn[moe].router.normalize": "norm_topk_prob normalize_router",
    "ffn[moe].router.scale": "routed_scaling_factor",
    "ffn[moe].router.score": "scoring_func",
    "norm[rmsnorm].eps": "rms_norm_eps",
    "norm[layernorm].eps": "layer_norm_eps layer_norm_epsilon layernorm_epsilon",
    "norm.eps": "norm_eps norm_epsilon norm.epsilon",
    "embedding": "embeddings embed emb",
    "embedding.position": "position_embedding embedding.pos embedding.positions",
    "embedding.scale": "embedding_multiplier scale_emb",
    "embedding.token_types": "type_vocab_size",
    "head.tied": "tie_word_embeddings tie_embeddings tie_weights tied_embeddings spec.tied head.tie",
    "head.scale": "logit_scale logits_scaling",
    "head.softcap": "final_logit_softcapping head.soft_cap head.logit_softcap",
    "dropout.embedding": "embd_pdrop embedding_dropout emb_pdrop embedding.dropout",
    "dropout.attention": "attention_dropout attn_pdrop attention_probs_dropout_prob attn_dropout attention.dropout",
    "dropout.ffn": "activation_dropout ffn_dropout ffn.dropout",
    "dropout.residual": "resid_pdrop hidden_dropout_prob hidden_dropout residual_dropout resid_dropout block.dropout",
    "init[normal].std": "initializer_range init_std",
}

#: What becomes of a value on its way: a text, or one for each value that has a meaning here.
VALUES: dict[str, str | dict[str, str]] = {
    "norm_first pre_norm normalize_before do_layer_norm_before": {"true": "pre", "false": "post"},
    "use_qk_norm qk_layernorm qk_layer_norm": {"true": "{over: head}", "false": "none"},
    "use_parallel_residual": {"true": "two_norms", "false": "none"},
    "multi_query mqa": {"true": "1"},
    "query_pre_attn_scalar": "1/sqrt({})",
    "logits_scaling": "1/{}",
    "partial_rotary_factor rotary_pct rope_scaling": "…",
}

#: What is said beside where a key goes.
REASONS = {
    "src_vocab_size tgt_vocab_size source_vocab_size target_vocab_size encoder_vocab_size decoder_vocab_size": "both stacks have "
    "one vocabulary",
    "n_shared_experts num_shared_experts shared_experts": "n shared experts of width w are one of n·w",
    "partial_rotary_factor rotary_pct": "the number of channels that turn",
    "rope_scaling": "its `kind` is linear, dynamic, yarn, longrope, or ramp for llama3",
}

#: Keys that no other key replaces -> what to do.
SAID = {
    "attention.causal attention.is_causal is_causal is_decoder": "a decoder is causal and an encoder is not: remove the line",
    "head.pool": "a pooler reads the first token; for a mean write `head: none`: vectors are pooled when it runs "
    "(`archspec run --embed`)",
    "is_encoder_decoder": "an `encoder:` beside the `decoder:` says it: remove the line",
    "add_cross_attention": "a decoder beside an encoder has it: remove the line",
    "model_type architectures transformers_version use_cache bos_token_id eos_token_id pad_token_id _name_or_path "
    "decoder_start_token_id gradient_checkpointing pretraining_tp output_attentions output_hidden_states return_dict": "it is no "
    "part of an architecture: remove the line",
}

#: Words of the language -> what they are called elsewhere.
WORDS = {
    "float16": "fp16 half",
    "bfloat16": "bf16",
    "float32": "fp32",
    "gelu_tanh": "gelu_new gelu_fast gelu_pytorch_tanh",
    "silu": "swish",
    "relu_squared": "relu2",
    "identity": "linear",
    "mlp": "dense",
    "moe": "mixture sparse",
    "mla": "latent",
    "softmax": "mha gqa grouped_query multi_head full",
    "rope": "rotary",
    "learned": "absolute",
    "sinusoidal": "sine",
    "relative_buckets": "t5 relative",
    "ramp": "llama3",
    "post": "post_norm",
    "pre": "pre_norm",
}

#: Names that say two things: a gated feed-forward, and the activation of its gate.
GATES = {"swiglu": "silu", "geglu": "gelu", "reglu": "relu", "glu": "sigmoid", "bilinear": "identity"}

_POOLED = "write `head: none`: vectors are pooled when it runs (`archspec run --embed`)"
_CROSS = "beside an encoder it is there by default: remove the line, or write what differs, as in `cross_attention: {{heads: 8}}`"
_OVER = "say over what: `qk_norm: {{over: head}}` norms each head with the model's norm"
_NORMALIZE = (
    "or `normalize: false`; true divides the chosen weights by their sum (Mixtral, Qwen 3, DeepSeek-V3), "
    "false leaves them as they are (DeepSeek-V2, OLMoE)"
)

#: Values that mean something else, by section and value -> what to do. `*` is any text.
INSTEAD = {
    "window.full window.global window.all": "write `window: none` for no window",
    "cross_attention.true": _CROSS,
    "norm.true": "name its kind: `{key}: layernorm`, or `{key}: rmsnorm`",
    "qk_norm.true qk_norm.*": _OVER,
    "router.softmax router.sigmoid": f"write `router: {{{{score: {{}}, normalize: true}}}}`, {_NORMALIZE}",
    "head.mean_pooling head.mean_pool head.mean head.pooling head.pooled head.embedding head.embeddings head.sentence "
    "head.sentence_embedding": _POOLED,
}

#: What to write where a key is missing.
MISSING = {
    "archspec": "`archspec: 1`, the version of the language",
    "name": "for example `name: my-model`",
    "vocab_size": "for example `vocab_size: 50257`",
    "d_model": "for example `d_model: 768`",
    "norm": "for example `norm: layernorm`, or `norm: {kind: rmsnorm, eps: 1e-6}`",
    "head": "for example `head: {tied: true}`, or `head: none`",
    "tied": "`tied: true` uses the token table for the logits, `tied: false` a matrix of its own",
    "layers": "for example `layers: 12`",
    "heads": "for example `heads: 12`",
    "width": "for example `width: 3072`, or `width: {ratio: 4}`",
    "activation": "for example `activation: gelu`",
    "over": "`over: head`: one weight for all heads; `each_head`: a weight per head; `vector`: the whole projection",
    "experts": "for example `experts: 8`",
    "top_k": "for example `top_k: 2`: how many experts a token takes",
    "expert": "for example `expert: {kind: gated, width: 2048, activation: silu}`",
    "router": f"write `router: {{normalize: true}}`, {_NORMALIZE}",
    "normalize": f"write `normalize: true`, {_NORMALIZE}",
    "labels": "for example `labels: 2`: how many classes there are",
    "pool": "`pool: first`, `last` or `mean` of a text's tokens; `tokens`: a label for every token",
    "source": "say where the totals come from",
}

#: Counts of experts that one shared expert stands for.
SHARED = ("n_shared_experts", "num_shared_experts", "shared_experts")
