from parity import Case, base

CASES = [
    Case("gpt_neo", "GPTNeoConfig", "GPTNeoForCausalLM",
         base(attention_types=[[["global", "local"], 1], [["local"], 1]], window_size=4)),
]  # fmt: skip
