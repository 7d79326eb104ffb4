from parity import VOCAB, Case

SIZES = {
    "vocab_size": VOCAB,
    "n_positions": 48,
    "n_embd": 24,
    "n_layer": 2,
    "n_head": 4,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
CASES = [
    Case("gpt2", "GPT2Config", "GPT2LMHeadModel", SIZES, hf=True),
    Case("gpt2 (unscaled, relu)", "GPT2Config", "GPT2LMHeadModel",
         SIZES | {"scale_attn_weights": False, "activation_function": "relu", "n_inner": 40}, hf=True),
]  # fmt: skip
