from parity import Case, moe

CASES = [
    Case("qwen3_moe", "Qwen3MoeConfig", "Qwen3MoeForCausalLM", moe(norm_topk_prob=True), hf=True),
    Case("qwen3_moe (dense layers)", "Qwen3MoeConfig", "Qwen3MoeForCausalLM",
         moe(decoder_sparse_step=2, num_hidden_layers=5, mlp_only_layers=[3]), hf=True),
]  # fmt: skip
