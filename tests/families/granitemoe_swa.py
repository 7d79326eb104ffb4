from parity import Case, moe

SIZES = moe(num_hidden_layers=5, sliding_window=4, shared_intermediate_size=16, head_dim=None)
SCALARS = {"embedding_multiplier": 6.0, "logits_scaling": 3.0, "residual_multiplier": 0.22, "attention_multiplier": 0.4}
CASES = [
    Case("granitemoe_swa", "GraniteMoeSWAConfig", "GraniteMoeSWAForCausalLM", SIZES | SCALARS),
    Case("granitemoe_swa (own rotations)", "GraniteMoeSWAConfig", "GraniteMoeSWAForCausalLM",
         SIZES | {"layer_rope_theta": [0, 1e4, 500.0, 1e4, 0], "shared_intermediate_size": 0}),
]  # fmt: skip
