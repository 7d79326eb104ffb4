from functools import partial

from parity import VOCAB, Case

SIZES = {
    "vocab_size": VOCAB, "d_model": 24, "encoder_layers": 2, "decoder_layers": 3, "encoder_ffn_dim": 40, "decoder_ffn_dim": 36,
    "encoder_attention_heads": 4, "decoder_attention_heads": 6, "max_position_embeddings": 48, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": 2,
}  # fmt: skip
beside = partial(Case, form="encoder_decoder")
CASES = [
    beside("bart", "BartConfig", "BartForConditionalGeneration", SIZES, hf=True),
    beside("bart (scaled, another activation)", "BartConfig", "BartForConditionalGeneration",
           SIZES | {"scale_embedding": True, "activation_function": "relu"}, hf=True),
    beside("bart (without its head)", "BartConfig", "BartModel", SIZES, overrides=("head=none",), hf=True),
    beside("mbart", "MBartConfig", "MBartForConditionalGeneration", SIZES | {"scale_embedding": True}, hf=True),
    beside("plbart", "PLBartConfig", "PLBartForConditionalGeneration", SIZES, hf=True),
    beside("blenderbot", "BlenderbotConfig", "BlenderbotForConditionalGeneration", SIZES, hf=True),
    beside("pegasus", "PegasusConfig", "PegasusForConditionalGeneration", SIZES, tables=True),
    beside("marian", "MarianConfig", "MarianMTModel", SIZES | {"scale_embedding": True, "activation_function": "swish"},
           tables=True, hf=True),
    beside("marian (a table of each stack)", "MarianConfig", "MarianMTModel", SIZES | {"share_encoder_decoder_embeddings": False},
           tables=True),
    beside("m2m_100", "M2M100Config", "M2M100ForConditionalGeneration", SIZES, tables=True, padding=("left", "right"), hf=True),
    beside("bart (untied)", "BartConfig", "BartForConditionalGeneration", SIZES | {"tie_word_embeddings": False},
           reason="a token table in each stack, and one more that nothing reads"),
    beside("bart (classifier)", "BartConfig", "BartForSequenceClassification", SIZES, reason="a classifier with a layer before it"),
    Case("bart (decoder alone)", "BartConfig", "BartForCausalLM", SIZES,
         reason="a decoder without its encoder"),
    beside("marian (two vocabularies)", "MarianConfig", "MarianMTModel",
           SIZES | {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": VOCAB + 2},
           reason="a vocabulary of its own in each stack"),
]  # fmt: skip
