from parity import Case, base

# A rotary_dim above 2 has frequencies that transformers rounds to float32 in any dtype.
CASES = [
    Case("gptj", "GPTJConfig", "GPTJForCausalLM", base(rotary_dim=2), hf=True),
    Case("gptj (tied)", "GPTJConfig", "GPTJForCausalLM", base(rotary_dim=2, tie_word_embeddings=True, n_inner=40), hf=True),
]
