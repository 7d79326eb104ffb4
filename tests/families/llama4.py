from parity import Case, moe

SIZES = moe(num_hidden_layers=5, attention_chunk_size=4, intermediate_size_mlp=28, num_experts_per_tok=1)
CASES = [
    Case("llama4", "Llama4TextConfig", "Llama4ForCausalLM", SIZES),
    Case("llama4 (interleaved, warm queries)", "Llama4TextConfig", "Llama4ForCausalLM",
         SIZES | {"interleave_moe_layer_step": 2, "floor_scale": 3, "attn_scale": 0.4, "num_experts_per_tok": 2,
                  "attention_bias": True}),
    Case("llama4 (no norms, no chunks, llama3 scaling)", "Llama4TextConfig", "Llama4ForCausalLM",
         SIZES | {"use_qk_norm": False, "attn_temperature_tuning": False, "attention_chunk_size": None, "moe_layers": [0, 4],
                  "no_rope_layers": [1, 0, 1, 1, 0],
                  "rope_parameters": {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                      "rope_theta": 500.0, "original_max_position_embeddings": 24}}),
]  # fmt: skip
