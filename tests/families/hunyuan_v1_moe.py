from parity import Case, moe

ALPHA = {"rope_type": "dynamic", "factor": 1.0, "alpha": 1000.0, "rope_theta": 1e4}
CASES = [
    Case("hunyuan_v1_moe", "HunYuanMoEV1Config", "HunYuanMoEV1ForCausalLM", moe()),
    Case("hunyuan_v1_moe (alpha, biases, own top-k)", "HunYuanMoEV1Config", "HunYuanMoEV1ForCausalLM",
         moe(rope_parameters=ALPHA, attention_bias=True, moe_topk=[2, 3, 2], num_experts_per_tok=None,
             tie_word_embeddings=True)),
]  # fmt: skip
