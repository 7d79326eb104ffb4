from parity import Case, base

CASES = [
    Case("qwen2", "Qwen2Config", "Qwen2ForCausalLM"),
    Case("qwen2 (windows, tied)", "Qwen2Config", "Qwen2ForCausalLM",
         base(use_sliding_window=True, sliding_window=4, max_window_layers=1, tie_word_embeddings=True)),
]  # fmt: skip
