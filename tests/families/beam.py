from parity import Case, moe

SIZES = moe(num_hidden_layers=5, sliding_window=4, n_group=1, topk_group=1)
CASES = [
    Case("beam", "BeamConfig", "BeamForCausalLM", SIZES),
    Case("beam (groups, no softcap, biases)", "BeamConfig", "BeamForCausalLM",
         SIZES | {"num_experts": 6, "n_group": 3, "topk_group": 2, "final_logit_softcapping": None, "attention_bias": True,
                  "mlp_layer_types": ["dense", "sparse", "sparse", "sparse", "sparse"],
                  "layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention"]}),
]  # fmt: skip
