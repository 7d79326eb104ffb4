from parity import Case, base

CASES = [
    Case("bert_generation", "BertGenerationConfig", "BertGenerationDecoder", base(is_decoder=True)),
    Case("bert_generation (another activation)", "BertGenerationConfig", "BertGenerationDecoder",
         base(is_decoder=True, hidden_act="gelu_new")),
    Case("bert_generation (encoder)", "BertGenerationConfig", "BertGenerationDecoder", base(is_decoder=False),
         reason="the map has decoders only"),
]  # fmt: skip
