from parity import Case, mla

SIZES = mla(n_group=1, topk_group=1, first_k_dense_replace=1, n_shared_experts=1)
#: Short, so that queries grow within a test.
ROPE = {
    "rope_type": "yarn",
    "factor": 4.0,
    "rope_theta": 1e4,
    "original_max_position_embeddings": 5,
    "llama_4_scaling_beta": 0.3,
}
CASES = [
    Case("mistral4", "Mistral4Config", "Mistral4ForCausalLM", SIZES),
    Case("mistral4 (temperature)", "Mistral4Config", "Mistral4ForCausalLM",
         SIZES | {"rope_parameters": ROPE | {"mscale": 1.0, "mscale_all_dim": 1.0}}),
    Case("mistral4 (groups, full q, halves)", "Mistral4Config", "Mistral4ForCausalLM",
         SIZES | {"rope_parameters": dict(ROPE), "q_lora_rank": None, "rope_interleave": False, "n_routed_experts": 6,
                  "n_group": 3, "topk_group": 2, "norm_topk_prob": False, "routed_scaling_factor": 2.0}),
]  # fmt: skip
