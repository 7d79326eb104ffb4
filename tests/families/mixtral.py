from parity import Case, moe

CASES = [
    Case("mixtral", "MixtralConfig", "MixtralForCausalLM", moe()),
    Case("mixtral (window)", "MixtralConfig", "MixtralForCausalLM", moe(sliding_window=4, num_hidden_layers=1)),
]
