from parity import Case, moe

SIZES = moe(num_hidden_layers=5, sliding_window=4, logit_scale=2.0)
CASES = [
    Case("cohere2_moe", "Cohere2MoeConfig", "Cohere2MoeForCausalLM", SIZES | {"num_shared_experts": 1}),
    Case("cohere2_moe (sigmoid, summed, dense prefix, rmsnorm)", "Cohere2MoeConfig", "Cohere2MoeForCausalLM",
         SIZES | {"num_shared_experts": 2, "shared_expert_combination_strategy": "sum", "expert_selection_fn": "sigmoid",
                  "mlp_layer_types": ["dense", "sparse", "sparse", "dense", "sparse"], "rms_norm_eps": 1e-5,
                  "prefix_dense_intermediate_size": 28, "tie_word_embeddings": False, "attention_bias": True}),
    Case("cohere2_moe (weights as they are, none shared)", "Cohere2MoeConfig", "Cohere2MoeForCausalLM",
         SIZES | {"expert_selection_fn": "sigmoid", "norm_topk_prob": False, "prefix_dense_sliding_window_pattern": 2}),
]  # fmt: skip
