from parity import Case, base

CASES = [
    Case("glm", "GlmConfig", "GlmForCausalLM", hf=True),
    Case("glm (wholly turned, no biases)", "GlmConfig", "GlmForCausalLM",
         base(head_dim=6, partial_rotary_factor=1.0, attention_bias=False)),
]  # fmt: skip
