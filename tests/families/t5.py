from functools import partial

from parity import VOCAB, Case

SIZES = {
    "vocab_size": VOCAB, "d_model": 24, "d_kv": 5, "d_ff": 40, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 6,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 10, "pad_token_id": 0, "eos_token_id": 1,
    "decoder_start_token_id": 0,
}  # fmt: skip
OWN_HEAD = SIZES | {"tie_word_embeddings": False}
beside = partial(Case, form="encoder_decoder", padding=("left", "right"))
CASES = [
    beside("t5", "T5Config", "T5ForConditionalGeneration", SIZES, hf=True),
    beside("t5 (gated)", "T5Config", "T5ForConditionalGeneration", OWN_HEAD | {"feed_forward_proj": "gated-gelu"}, hf=True),
    beside("t5 (gated, untied)", "T5Config", "T5ForConditionalGeneration", OWN_HEAD | {"feed_forward_proj": "gated-gelu"},
           own_head=True, hf=True),
    beside("t5 (gated SiLU, heads as wide as the model)", "T5Config", "T5ForConditionalGeneration",
           SIZES | {"d_kv": 4, "feed_forward_proj": "gated-silu"}, hf=True),
    Case("t5 (encoder)", "T5Config", "T5EncoderModel", SIZES, form="encoder", hf=True),
    beside("t5 (without its head)", "T5Config", "T5Model", OWN_HEAD, overrides=("head=none",), hf=True),
    beside("mt5", "MT5Config", "MT5ForConditionalGeneration", SIZES),
    beside("mt5 (untied)", "MT5Config", "MT5ForConditionalGeneration", SIZES, own_head=True),
    beside("umt5", "UMT5Config", "UMT5ForConditionalGeneration", OWN_HEAD, hf=True),
    Case("umt5 (encoder)", "UMT5Config", "UMT5EncoderModel", SIZES, form="encoder", hf=True),
    beside("umt5 (scaled)", "UMT5Config", "UMT5ForConditionalGeneration", SIZES, hf=True),
    beside("t5 (classifier)", "T5Config", "T5ForSequenceClassification", SIZES,
           reason="a classifier with a layer before it"),
]  # fmt: skip
