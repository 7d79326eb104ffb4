from parity import Case, base

LONG = {
    "rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0, 1.5, 2.0], "long_factor": [2.0, 3.0, 5.0],
    "partial_rotary_factor": 0.75,
}  # fmt: skip
SIZES = {"hidden_size": 48, "head_dim": 8, "original_max_position_embeddings": 2}
CASES = [
    Case("phi3", "Phi3Config", "Phi3ForCausalLM", base(sliding_window=5), hf=True),
    Case("phi3 (longrope, partly turned, tied)", "Phi3Config", "Phi3ForCausalLM",
         base(**SIZES, rope_parameters=LONG, tie_word_embeddings=True), hf=True),
]  # fmt: skip
