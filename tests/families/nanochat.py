from parity import Case, base

CASES = [
    Case("nanochat", "NanoChatConfig", "NanoChatForCausalLM"),
    Case("nanochat (biases, no cap)", "NanoChatConfig", "NanoChatForCausalLM",
         base(attention_bias=True, final_logit_softcapping=None)),
]  # fmt: skip
