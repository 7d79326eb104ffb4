from parity import Case, base

CASES = [
    Case("mpt", "MptConfig", "MptForCausalLM", base(max_seq_len=48)),
    Case("mpt (clipped, scaled, untied)", "MptConfig", "MptForCausalLM",
         base(max_seq_len=48, tie_word_embeddings=False,
              attn_config={"clip_qkv": 0.8, "softmax_scale": 0.3})),
]  # fmt: skip
