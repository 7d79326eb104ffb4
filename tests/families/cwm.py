from parity import Case, base

CASES = [Case("cwm", "CwmConfig", "CwmForCausalLM", base(sliding_window=4, num_hidden_layers=5))]
