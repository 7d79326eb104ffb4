from parity import Case, base

CASES = [Case("gemma", "GemmaConfig", "GemmaForCausalLM", base(head_dim=8))]
