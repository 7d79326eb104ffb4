from parity import Case, mla

SIZES = mla(n_group=1, topk_group=1, first_k_dense_replace=1, n_shared_experts=2)
YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "rope_theta": 1e4,
    "original_max_position_embeddings": 12,
    "mscale_all_dim": 0.7,
}
CASES = [
    Case("deepseek_v3", "DeepseekV3Config", "DeepseekV3ForCausalLM", SIZES, hf=True),
    Case("deepseek_v3 (groups, yarn)", "DeepseekV3Config", "DeepseekV3ForCausalLM",
         SIZES | {"n_routed_experts": 6, "n_group": 3, "topk_group": 2, "rope_parameters": YARN | {"mscale": 0.7}}, hf=True),
    Case("deepseek_v3 (full q, both mscales)", "DeepseekV3Config", "DeepseekV3ForCausalLM",
         SIZES | {"q_lora_rank": None, "rope_interleave": False, "rope_parameters": YARN | {"mscale": 1.3}}, hf=True),
]  # fmt: skip
