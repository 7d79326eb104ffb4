from parity import Case, moe

SIZES = moe(n_group=1, topk_group=1, first_k_dense_replace=1, n_shared_experts=1)
CASES = [
    Case("glm4_moe", "Glm4MoeConfig", "Glm4MoeForCausalLM", SIZES),
    Case("glm4_moe (biases, norms, groups)", "Glm4MoeConfig", "Glm4MoeForCausalLM",
         SIZES | {"attention_bias": True, "use_qk_norm": True, "n_routed_experts": 6, "n_group": 3, "topk_group": 2,
                  "routed_scaling_factor": 2.5, "norm_topk_prob": False, "n_shared_experts": 2}),
]  # fmt: skip
