from parity import Case, mla

SIZES = mla(n_group=1, topk_group=1, n_shared_experts=1)
YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "rope_theta": 1e4,
    "original_max_position_embeddings": 12,
    "mscale_all_dim": 0.7,
}
CASES = [
    Case("glm4_moe_lite", "Glm4MoeLiteConfig", "Glm4MoeLiteForCausalLM", SIZES),
    Case("glm4_moe_lite (halves, list of dense layers, groups, yarn)", "Glm4MoeLiteConfig", "Glm4MoeLiteForCausalLM",
         SIZES | {"rope_interleave": False, "mlp_layer_types": ["sparse", "dense", "sparse"], "n_routed_experts": 6,
                  "n_group": 3, "topk_group": 2, "rope_parameters": YARN}),
]  # fmt: skip
