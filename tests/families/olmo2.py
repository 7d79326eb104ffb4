from parity import Case, base

SIZES = base(sliding_window=4, num_hidden_layers=5)
ROPE = {
    "full_attention": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4, "original_max_position_embeddings": 12},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}
CASES = [
    Case("olmo2", "Olmo2Config", "Olmo2ForCausalLM", base(rms_norm_eps=1e-4)),
    Case("olmo3", "Olmo3Config", "Olmo3ForCausalLM", SIZES),
    Case("olmo3 (yarn)", "Olmo3Config", "Olmo3ForCausalLM", SIZES | {"rope_parameters": ROPE}),
]
