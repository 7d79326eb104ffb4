from parity import Case, base

ROPE = {"rope_type": "default", "rope_theta": 500.0, "mrope_section": [1, 1, 0]}
CASES = [
    Case("cohere_compass", "CohereCompassTextConfig", "CohereCompassForCausalLM",
         base(num_hidden_layers=4, sliding_window=4, logit_scale=0.25,
              layer_types=["sliding_attention"] * 3 + ["full_attention"],
              rope_parameters={"full_attention": None, "sliding_attention": ROPE}), module="cohere_compass"),
    Case("cohere_compass (rotations everywhere)", "CohereCompassTextConfig", "CohereCompassForCausalLM",
         base(attention_bias=True, rope_parameters={"full_attention": ROPE}), module="cohere_compass"),
]  # fmt: skip
