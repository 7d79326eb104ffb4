"""Families of Hugging Face that the language cannot say, by model_type, each with what it lacks for them."""

from __future__ import annotations

_INDEXER = "each query sees only the keys that a learned indexer picks for it"

UNSAID = {
    "axk2": f"{_INDEXER}, and its norms have a gate of two linears",
    "bigbird_pegasus": "its encoder sees some blocks that are drawn at random",
    "blenderbot-small": "its decoder norms tokens before positions are added to them, and its encoder the sum",
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
    "led": "its encoder sees a window, save for tokens that see all and are seen by all",
    "longcat_flash": "a layer has two attentions and two networks with experts beside them, some of which return their input",
    "longt5": "its encoder sees a window of blocks, and summaries of all others",
    "minimax_m3_vl_text": "each query sees only the blocks of keys that a learned indexer picks for it",
    "mistral_large4_text": f"{_INDEXER}, which layers share, and layers take keys and values from earlier ones",
    "prophetnet": "its decoder predicts several tokens at once, in streams beside each other",
    "switch_transformers": "an expert takes no more than so many tokens of a text, and the others none",
    "xlnet": "positions are relative as in Transformer-XL, with segments in the scores",
}
_STATES = "state spaces, which keep a state in place of keys and values"
_LINEAR = "linear attention, which keeps a state in place of keys and values"
UNSAID |= dict.fromkeys(("mamba", "mamba2", "falcon_mamba"), f"its layers are {_STATES}")
UNSAID |= dict.fromkeys(
    ("bamba", "falcon_h1", "granitemoehybrid", "jamba", "nemotron_h", "zamba", "zamba2"),
    f"it has layers with {_STATES}",
)
UNSAID |= dict.fromkeys(
    ("kimi_linear", "minimax", "olmo_hybrid", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_next"),
    f"it has layers with {_LINEAR}",
)
UNSAID |= dict.fromkeys(("recurrent_gemma", "rwkv", "xlstm"), "it has recurrent layers")
UNSAID |= dict.fromkeys(("lfm2", "lfm2_moe", "lfm3"), "it has layers of short convolutions")
#: The same models inside one that also sees or hears.
UNSAID |= {name.removesuffix("_text"): why for name, why in UNSAID.items()}
