from parity import Case, base

CASES = [
    Case("ernie4_5", "Ernie4_5Config", "Ernie4_5ForCausalLM", hf=True),
    Case("ernie4_5 (biases, untied)", "Ernie4_5Config", "Ernie4_5ForCausalLM",
         base(use_bias=True, tie_word_embeddings=False), hf=True),
]  # fmt: skip
