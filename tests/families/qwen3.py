from parity import Case, base

YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4, "original_max_position_embeddings": 12}
CASES = [
    Case("qwen3", "Qwen3Config", "Qwen3ForCausalLM", base(head_dim=8)),
    Case("qwen3 (windows, biases)", "Qwen3Config", "Qwen3ForCausalLM",
         base(use_sliding_window=True, sliding_window=4, max_window_layers=1, attention_bias=True)),
    Case("qwen3 (yarn)", "Qwen3Config", "Qwen3ForCausalLM", base(rope_parameters=YARN)),
]  # fmt: skip
