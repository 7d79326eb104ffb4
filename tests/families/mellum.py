from parity import Case, moe

SIZES = moe(num_hidden_layers=5, sliding_window=4)
ROPES = {
    "full_attention": {"rope_type": "yarn", "factor": 2.0, "rope_theta": 1e4, "original_max_position_embeddings": 24},
    "sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
}
TYPES = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention"]
CASES = [
    Case("mellum", "MellumConfig", "MellumForCausalLM", SIZES),
    Case("mellum (rotations by type, dense layers)", "MellumConfig", "MellumForCausalLM",
         SIZES | {"rope_parameters": ROPES, "layer_types": TYPES, "attention_bias": True, "norm_topk_prob": False,
                  "mlp_layer_types": ["dense", "sparse", "sparse", "dense", "sparse"]}),
]  # fmt: skip
