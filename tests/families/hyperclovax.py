from parity import Case, base

MUP = {"embedding_multiplier": 3.0, "logits_scaling": 0.7, "residual_multiplier": 0.6, "attention_multiplier": 0.3}
CASES = [
    Case("hyperclovax", "HyperCLOVAXConfig", "HyperCLOVAXForCausalLM"),
    Case("hyperclovax (multipliers, biases, norms before only)", "HyperCLOVAXConfig", "HyperCLOVAXForCausalLM",
         base(**MUP, use_post_norm=False, attention_bias=True, mlp_bias=True)),
]  # fmt: skip
