from parity import Case, base

CASES = [
    Case("bloom", "BloomConfig", "BloomForCausalLM", base()),
    Case("bloom (residual after the norm)", "BloomConfig", "BloomForCausalLM",
         base(apply_residual_connection_post_layernorm=True), reason="a skip connection that starts after the norm"),
]  # fmt: skip
