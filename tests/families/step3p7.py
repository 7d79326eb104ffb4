from parity import Case, moe

SIZES = moe(num_hidden_layers=5, sliding_window=4, share_expert_dim=10)
MIXED = SIZES | {
    "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
    "num_sliding_attention_heads": 8,
    "swiglu_limits": [0, 0, 0, 0.4, 0.0],
    "swiglu_limits_shared": [0.0, 0.5, 0.0, 0.0, 0.6],
    "moe_router_scaling_factor": 2.5,
    "query_pre_attn_scalar": 9,
    "attention_bias": True,
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 50000.0, "partial_rotary_factor": 0.5},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    },
}
CASES = [
    Case("step3p7", "Step3p7TextConfig", "Step3p7TextModel", SIZES, module="step3p7"),
    Case("step3p7 (windows, heads by layer, clamps)", "Step3p7TextConfig", "Step3p7TextModel", MIXED, module="step3p7"),
]
