from parity import Case, base

CASES = [
    Case("smollm3", "SmolLM3Config", "SmolLM3ForCausalLM", base(num_hidden_layers=5)),
    Case("smollm3 (windows, untied)", "SmolLM3Config", "SmolLM3ForCausalLM",
         base(no_rope_layers=[1, 0, 1], use_sliding_window=True, sliding_window=4, tie_word_embeddings=False)),
]  # fmt: skip
