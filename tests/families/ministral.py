from parity import Case, base

CASES = [
    Case("ministral", "MinistralConfig", "MinistralForCausalLM", base(sliding_window=4)),
    Case("ministral (mixed)", "MinistralConfig", "MinistralForCausalLM",
         base(sliding_window=4, layer_types=["full_attention", "sliding_attention", "full_attention"])),
]  # fmt: skip
