from parity import Case, base

WIDE = base(hidden_size=48, rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5})
CASES = [
    Case("gpt_neox", "GPTNeoXConfig", "GPTNeoXForCausalLM", WIDE, hf=True),
    Case("gpt_neox (pre-norm, no bias, tied)", "GPTNeoXConfig", "GPTNeoXForCausalLM",
         WIDE | {"use_parallel_residual": False, "attention_bias": False, "tie_word_embeddings": True}, hf=True),
]  # fmt: skip
