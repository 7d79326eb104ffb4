from parity import Case, base

CASES = [
    Case("phi", "PhiConfig", "PhiForCausalLM", hf=True),
    Case("phi (q/k norm, a quarter turned)", "PhiConfig", "PhiForCausalLM",
         base(hidden_size=48, head_dim=8, qk_layernorm=True, partial_rotary_factor=0.25), hf=True),
]  # fmt: skip
