from parity import Case, base

CASES = [
    Case("ctrl", "CTRLConfig", "CTRLLMHeadModel", base(dff=40)),
    Case("ctrl (another eps, untied)", "CTRLConfig", "CTRLLMHeadModel",
         base(dff=40, layer_norm_epsilon=1e-3, tie_word_embeddings=False)),
]  # fmt: skip
