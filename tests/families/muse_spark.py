from parity import Case, moe

SIZES = moe(num_hidden_layers=4, sliding_window=4, moe_hidden_size=16)
CASES = [
    Case("muse_spark", "MuseSparkTextConfig", "MuseSparkTextModel", SIZES),
    Case("muse_spark (dense layers, scaled)", "MuseSparkTextConfig", "MuseSparkTextModel",
         SIZES | {"mlp_layer_types": ["dense", "sparse", "dense", "sparse"], "routed_scaling_factor": 2.5,
                  "residual_gate_temperature": 0.7, "attention_bias": True, "post_norm_eps": 1e-3}),
]  # fmt: skip
