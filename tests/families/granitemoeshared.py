from parity import Case, moe

SCALARS = {"embedding_multiplier": 6.0, "logits_scaling": 3.0, "residual_multiplier": 0.22, "attention_multiplier": 0.4}
CASES = [
    Case("granitemoeshared", "GraniteMoeSharedConfig", "GraniteMoeSharedForCausalLM",
         moe(shared_intermediate_size=16, head_dim=None) | SCALARS),
    Case("granitemoeshared (none shared, tied, biases)", "GraniteMoeSharedConfig", "GraniteMoeSharedForCausalLM",
         moe(shared_intermediate_size=0, head_dim=None, tie_word_embeddings=True, attention_bias=True)),
]  # fmt: skip
