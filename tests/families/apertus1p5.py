from parity import Case, base

CASES = [
    Case("apertus1p5", "Apertus1p5TextConfig", "Apertus1p5TextForCausalLM", base(), module="apertus1p5"),
    Case("apertus1p5 (silu, biases, tied)", "Apertus1p5TextConfig", "Apertus1p5TextForCausalLM",
         base(hidden_act="silu", attention_bias=True, tie_word_embeddings=True), module="apertus1p5"),
    Case("apertus1p5 (fewer words out)", "Apertus1p5TextConfig", "Apertus1p5TextForCausalLM",
         base(output_vocab_size=50), module="apertus1p5", reason="a head that knows fewer words than the embedding"),
]  # fmt: skip
