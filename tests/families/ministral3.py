from parity import Case, base

# the temperature is computed in float32 there: one step of it stays within the tolerance
YARN = {
    "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 8, "beta_fast": 32.0,
    "beta_slow": 1.0, "llama_4_scaling_beta": 0.1,
}  # fmt: skip
CASES = [
    Case("ministral3", "Ministral3Config", "Ministral3ForCausalLM",
         base(rope_parameters=YARN | {"mscale": 1.0, "mscale_all_dim": 1.0})),
    Case("ministral3 (windows, tied)", "Ministral3Config", "Ministral3ForCausalLM",
         base(rope_parameters=YARN, sliding_window=5, tie_word_embeddings=True)),
]  # fmt: skip
