from parity import Case, base

CASES = [
    Case("starcoder2", "Starcoder2Config", "Starcoder2ForCausalLM", base(sliding_window=5, initializer_range=0.02), hf=True),
    Case("starcoder2 (untied, no biases)", "Starcoder2Config", "Starcoder2ForCausalLM",
         base(use_bias=False, tie_word_embeddings=False)),
]  # fmt: skip
