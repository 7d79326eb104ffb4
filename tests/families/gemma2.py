from parity import Case, base

SIZES = base(head_dim=8, sliding_window=4, query_pre_attn_scalar=6)
CASES = [
    Case("gemma2", "Gemma2Config", "Gemma2ForCausalLM", SIZES),
    Case("gemma2 (no softcaps)", "Gemma2Config", "Gemma2ForCausalLM",
         SIZES | {"attn_logit_softcapping": None, "final_logit_softcapping": None}),
    Case("vaultgemma", "VaultGemmaConfig", "VaultGemmaForCausalLM", SIZES),
]  # fmt: skip
