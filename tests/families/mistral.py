from parity import Case, base

CASES = [
    Case("mistral", "MistralConfig", "MistralForCausalLM", base(sliding_window=4)),
    Case("mistral (full)", "MistralConfig", "MistralForCausalLM", base(sliding_window=None)),
]
