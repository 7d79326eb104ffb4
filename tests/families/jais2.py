from parity import Case, base

CASES = [
    Case("jais2", "Jais2Config", "Jais2ForCausalLM", hf=True),
    Case("jais2 (no biases, silu)", "Jais2Config", "Jais2ForCausalLM",
         base(attention_bias=False, mlp_bias=False, hidden_act="silu"), hf=True),
]  # fmt: skip
