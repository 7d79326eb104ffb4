from parity import Case, moe

LONGROPE = {
    "rope_type": "longrope", "rope_theta": 500.0, "original_max_position_embeddings": 24, "short_factor": [1.5, 2.0],
    "long_factor": [2.0, 4.0], "short_mscale": 1.2, "long_mscale": 1.2,
}  # fmt: skip
CASES = [
    Case("phimoe", "PhimoeConfig", "PhimoeForCausalLM", moe()),
    Case("phimoe (longrope, window, biases)", "PhimoeConfig", "PhimoeForCausalLM",
         moe(attention_bias=True, lm_head_bias=True, sliding_window=5, router_jitter_noise=0.3, rope_parameters=LONGROPE)),
    Case("phimoe (another strength for long texts)", "PhimoeConfig", "PhimoeForCausalLM",
         moe(rope_parameters=LONGROPE | {"long_mscale": 1.3}), reason="a strength of longrope that changes with the length"),
]  # fmt: skip
