from parity import Case, moe

SIZES = moe(num_hidden_layers=6, sliding_window=4, shared_expert_intermediate_size=20)
CASES = [
    Case("kolibri1", "Kolibri1Config", "Kolibri1ForCausalLM", SIZES),
    Case("kolibri1 (normalised, no windows and so no rotations)", "Kolibri1Config", "Kolibri1ForCausalLM",
         SIZES | {"norm_topk_prob": True, "layer_types": ["full_attention"] * 6}),
]  # fmt: skip
