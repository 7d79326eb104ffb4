from parity import Case, base

MUP = {"embedding_multiplier": 3.0, "logits_scaling": 2.5, "residual_multiplier": 0.6, "attention_multiplier": 0.3}
CASES = [
    Case("granite_swa", "GraniteSWAConfig", "GraniteSWAForCausalLM", base(sliding_window=4)),
    Case("granite_swa (multipliers, thetas by layer)", "GraniteSWAConfig", "GraniteSWAForCausalLM",
         base(**MUP, sliding_window=4, num_hidden_layers=5, layer_rope_theta=[0, 1e4, 1e4, 500.0, 0], mlp_bias=True)),
]  # fmt: skip
