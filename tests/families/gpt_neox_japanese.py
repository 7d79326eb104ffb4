from parity import Case, base

CASES = [
    Case("gpt_neox_japanese", "GPTNeoXJapaneseConfig", "GPTNeoXJapaneseForCausalLM", base()),
    Case("gpt_neox_japanese (narrow, partial)", "GPTNeoXJapaneseConfig", "GPTNeoXJapaneseForCausalLM",
         base(intermediate_multiple_size=2, tie_word_embeddings=False,
              rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5})),
]  # fmt: skip
