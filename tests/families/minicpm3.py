from parity import Case, mla

LONG = {
    "rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0, 1.5], "long_factor": [2.0, 5.0],
    "original_max_position_embeddings": 2,
}  # fmt: skip
CASES = [
    Case("minicpm3", "MiniCPM3Config", "MiniCPM3ForCausalLM", mla()),
    Case("minicpm3 (longrope, whole queries, no multipliers)", "MiniCPM3Config", "MiniCPM3ForCausalLM",
         mla(rope_parameters=LONG, q_lora_rank=None, scale_depth=None, dim_model_base=None, scale_emb=1, mlp_bias=True)),
    Case("minicpm3 (biases of latent attention)", "MiniCPM3Config", "MiniCPM3ForCausalLM", mla(attention_bias=True),
         reason="latent attention has no biases"),
]  # fmt: skip
