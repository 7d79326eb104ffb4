from parity import Case, moe

SIZES = moe(num_hidden_layers=5, sliding_window=4, shared_expert_intermediate_size=20)
CASES = [
    Case("flint", "FlintConfig", "FlintForCausalLM", SIZES),
    Case("flint (every second, biases)", "FlintConfig", "FlintForCausalLM",
         SIZES | {"mlp_only_layers": [3], "decoder_sparse_step": 2, "attention_bias": True, "norm_topk_prob": False}),
]  # fmt: skip
