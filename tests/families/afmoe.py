from parity import Case, moe

SIZES = moe(num_hidden_layers=5, sliding_window=4, num_dense_layers=1, num_shared_experts=1)
CASES = [
    Case("afmoe", "AfmoeConfig", "AfmoeForCausalLM", SIZES, buffers_count=True),
    Case("afmoe (scaled embedding, biases)", "AfmoeConfig", "AfmoeForCausalLM",
         SIZES | {"mup_enabled": True, "attention_bias": True, "route_scale": 2.5, "num_shared_experts": 2,
                  "global_attn_every_n_layers": 2}, buffers_count=True),
]  # fmt: skip
