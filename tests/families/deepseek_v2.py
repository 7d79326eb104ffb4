from parity import Case, mla

SIZES = mla(first_k_dense_replace=1, n_shared_experts=2, n_group=1, topk_group=1)
YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "rope_theta": 1e4,
    "original_max_position_embeddings": 12,
    "mscale_all_dim": 0.7,
}
CASES = [
    Case("deepseek_v2", "DeepseekV2Config", "DeepseekV2ForCausalLM", SIZES),
    Case("deepseek_v2 (groups, scale, yarn)", "DeepseekV2Config", "DeepseekV2ForCausalLM",
         SIZES | {"topk_method": "group_limited_greedy", "n_routed_experts": 6, "n_group": 3, "topk_group": 2,
                  "routed_scaling_factor": 16.0, "rope_parameters": YARN | {"mscale": 0.7}}),
    Case("deepseek_v2 (full q, no dense layers)", "DeepseekV2Config", "DeepseekV2ForCausalLM",
         SIZES | {"q_lora_rank": None, "first_k_dense_replace": 0}),
    Case("deepseek_v2 (biases)", "DeepseekV2Config", "DeepseekV2ForCausalLM", SIZES | {"attention_bias": True},
         reason="latent attention has no biases"),
    Case("deepseek_v2 (norm_topk_prob)", "DeepseekV2Config", "DeepseekV2ForCausalLM", SIZES | {"norm_topk_prob": True},
         reason="the models' own code renormalises, transformers' does not"),
]  # fmt: skip
