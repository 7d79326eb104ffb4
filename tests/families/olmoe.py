from parity import Case, moe

CASES = [
    Case("olmoe", "OlmoeConfig", "OlmoeForCausalLM", moe()),
    Case("olmoe (clipped, normalized, biases)", "OlmoeConfig", "OlmoeForCausalLM",
         moe(clip_qkv=0.8, norm_topk_prob=True, attention_bias=True)),
]  # fmt: skip
