"""Families of Hugging Face that the language cannot say, by model_type, each with what it lacks for them."""

from __future__ import annotations

_INDEXER = "each query sees only the keys that a learned indexer picks for it"

UNSAID = {
    "axk2": f"{_INDEXER}, and its norms have a gate of two linears",
    "cpmant": "a learned prompt stands before every input, and distances are counted between segments",
    "deepseek_v32": _INDEXER,
    "deepseek_v4": f"{_INDEXER}, from keys that are pooled over blocks and serve as values; and its residual is of several streams",
    "diffllama": "a head is the difference of two softmaxes",
    "doge": "the scores have a term that is made from the values, and the skip connection a learned factor a channel",
    "dory": "a sublayer moves x a learned share of the way to its output, and a block of layers runs several times",
    "dots3_note_text": f"{_INDEXER}, and latent attention has gates of its heads and factors of its latents",
    "gemma3n_text": "several streams run beside each other, each layer has token embeddings of its own, and layers share keys",
    "gemma4_text": "each layer has token embeddings of its own and a stored factor, and keys may serve as values",
    "glm_moe_dsa": f"{_INDEXER}, which layers share",
    "hrm_text": "two stacks run in turns, each from the sum of both results",
    "hy_v4": f"{_INDEXER}, and its residual is of several streams",
    "jetmoe": "a router chooses the query and output projections of a token",
    "longcat_flash": "a layer has two attentions and two networks with experts beside them, some of which return their input",
    "minimax_m3_vl_text": "each query sees only the blocks of keys that a learned indexer picks for it",
    "mistral_large4_text": f"{_INDEXER}, which layers share, and layers take keys and values from earlier ones",
    "xlnet": "positions are relative as in Transformer-XL, with segments in the scores",
}
#: The same models inside one that also sees or hears.
UNSAID |= {name.removesuffix("_text"): why for name, why in UNSAID.items()}
