from parity import Case, moe

SIZES = moe(
    n_group=1, topk_group=1, first_k_dense_replace=1, num_shared_experts=1, sliding_window=4, num_hidden_layers=5
)
CASES = [
    Case("exaone_moe", "ExaoneMoeConfig", "ExaoneMoeForCausalLM", SIZES),
    Case("exaone_moe (no windows and so no rotations, groups)", "ExaoneMoeConfig", "ExaoneMoeForCausalLM",
         SIZES | {"layer_types": ["full_attention"] * 5, "num_experts": 6, "n_group": 3,
                  "topk_group": 2, "mlp_layer_types": ["sparse", "sparse", "dense", "sparse", "sparse"]}),
]  # fmt: skip
