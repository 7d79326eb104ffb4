from parity import Case, base

CASES = [
    Case("gptj", "GPTJConfig", "GPTJForCausalLM", base(hidden_size=48, rotary_dim=4), hf=True, tables=True),
    Case(
        "gptj (tied)",
        "GPTJConfig",
        "GPTJForCausalLM",
        base(hidden_size=48, rotary_dim=4, tie_word_embeddings=True, n_inner=40),
        hf=True,
        tables=True,
    ),
]
