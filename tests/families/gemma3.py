from parity import Case, base

SIZES = base(head_dim=8, sliding_window=4, query_pre_attn_scalar=6, num_hidden_layers=7)
ROPE = {
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e3},
}
CASES = [
    Case("gemma3", "Gemma3TextConfig", "Gemma3ForCausalLM", SIZES, hf=True),
    Case("gemma3 (scaled)", "Gemma3TextConfig", "Gemma3ForCausalLM", SIZES | {"rope_parameters": ROPE}, hf=True),
]
