from parity import Case, base

CASES = [
    Case("openai", "OpenAIGPTConfig", "OpenAIGPTLMHeadModel", base()),
    Case(
        "openai (silu, untied)", "OpenAIGPTConfig", "OpenAIGPTLMHeadModel", base(afn="swish", tie_word_embeddings=False)
    ),
]
