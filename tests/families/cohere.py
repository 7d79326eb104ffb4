from parity import Case, base

CASES = [
    Case("cohere", "CohereConfig", "CohereForCausalLM", base(logit_scale=0.5), hf=True),
    Case("cohere (q/k norm, biases)", "CohereConfig", "CohereForCausalLM",
         base(use_qk_norm=True, attention_bias=True, logit_scale=1.5), hf=True),
]  # fmt: skip
