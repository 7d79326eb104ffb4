from parity import Case, base

CASES = [
    Case("modernbert_decoder", "ModernBertDecoderConfig", "ModernBertDecoderForCausalLM",
         base(local_attention=8, num_hidden_layers=4)),
    Case("modernbert_decoder (biases, untied)", "ModernBertDecoderConfig", "ModernBertDecoderForCausalLM",
         base(local_attention=8, attention_bias=True, mlp_bias=True, norm_bias=True, classifier_bias=True,
              decoder_bias=False, tie_word_embeddings=False)),
]  # fmt: skip
