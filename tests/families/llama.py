from parity import Case, base

SCALED = {"rope_theta": 500.0, "original_max_position_embeddings": 24}
CASES = [
    Case("llama", "LlamaConfig", "LlamaForCausalLM", hf=True),
    Case("llama (tied, biases)", "LlamaConfig", "LlamaForCausalLM",
         base(tie_word_embeddings=True, attention_bias=True, mlp_bias=True), hf=True),
    Case("llama (llama3 scaling)", "LlamaConfig", "LlamaForCausalLM",
         base(rope_parameters={"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **SCALED}),
         hf=True),
    Case("llama (linear scaling)", "LlamaConfig", "LlamaForCausalLM",
         base(rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}), hf=True),
    Case("llama (yarn)", "LlamaConfig", "LlamaForCausalLM", base(rope_parameters={"rope_type": "yarn", "factor": 2.0, **SCALED}),
         hf=True),
    Case("llama (dynamic)", "LlamaConfig", "LlamaForCausalLM",
         base(rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 500.0}), hf=True),
]  # fmt: skip
