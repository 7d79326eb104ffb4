from parity import Case, moe

SIZES = moe(sliding_window=4)
CASES = [
    Case("gpt_oss", "GptOssConfig", "GptOssForCausalLM", SIZES),
    Case("gpt_oss (tight clamp, no biases, plain rope)", "GptOssConfig", "GptOssForCausalLM",
         SIZES | {"swiglu_limit": 0.3, "attention_bias": False, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}),
    Case("gpt_oss (another gain)", "GptOssConfig", "GptOssForCausalLM", SIZES | {"swiglu_alpha": 1.5},
         reason="quick_gelu has its gain of 1.702"),
]  # fmt: skip
