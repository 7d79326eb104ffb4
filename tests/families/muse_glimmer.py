from parity import Case, base

SIZES = base(num_hidden_layers=5, sliding_window=4)
CASES = [
    Case("muse_glimmer", "MuseGlimmerTextConfig", "MuseGlimmerTextModel", SIZES),
    Case("muse_glimmer (biases, layers that turn)", "MuseGlimmerTextConfig", "MuseGlimmerTextModel",
         SIZES | {"attention_bias": True, "qk_scale_factor": 2.0, "post_norm_eps": 1e-3,
                  "layer_rope_theta": [0, 1e4, 1e4, 0, 1e4]}),
]  # fmt: skip
