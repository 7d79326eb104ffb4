from parity import Case, moe

SIZES = moe(n_group=1, topk_group=1, n_shared_experts=1)
ROPE = {"rope_type": "yarn", "factor": 2.0, "rope_theta": 1e4, "original_max_position_embeddings": 24}
CASES = [
    Case("solar_open", "SolarOpenConfig", "SolarOpenForCausalLM", SIZES),
    Case("solar_open (biases, groups, yarn)", "SolarOpenConfig", "SolarOpenForCausalLM",
         SIZES | {"attention_bias": True, "n_routed_experts": 6, "n_group": 3, "topk_group": 2, "head_dim": 8,
                  "rope_parameters": ROPE}),
]  # fmt: skip
