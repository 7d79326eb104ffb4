from parity import Case, moe

CASES = [
    Case("hy_v3", "HYV3Config", "HYV3ForCausalLM", moe(num_shared_experts=1)),
    Case("hy_v3 (biases, list of dense layers)", "HYV3Config", "HYV3ForCausalLM",
         moe(num_shared_experts=2, attention_bias=True, mlp_layer_types=["sparse", "dense", "sparse"])),
]  # fmt: skip
