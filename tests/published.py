"""Published models as Hugging Face configs: the witness of the zoo's totals.

Names and sizes are those of the checkpoints' own `config.json`; what does not touch a parameter's shape is left out.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


class Published(NamedTuple):
    """A config class of transformers, a model class, and the sizes."""

    config: str
    model: str
    sizes: dict[str, Any]


def _rows(config: str, model: str, names: str, rows: dict[str, tuple[Any, ...]], **common: Any) -> dict[str, Published]:
    """Models of one family: `names` are the keys of each row's values."""
    keys = names.split()
    return {
        name: Published(config, model, {**common, **dict(zip(keys, row, strict=True))}) for name, row in rows.items()
    }


_SHAPE = "hidden_size intermediate_size num_hidden_layers num_attention_heads"
_LLAMA = f"vocab_size {_SHAPE} num_key_value_heads"
_TWO_STACKS = "vocab_size d_model " + " ".join(
    f"{side}_{key}" for side in ("encoder", "decoder") for key in ("layers", "ffn_dim", "attention_heads")
)
_DEEPSEEK = "hidden_size intermediate_size moe_intermediate_size num_hidden_layers num_attention_heads q_lora_rank"

PUBLISHED: dict[str, Published] = {
    **_rows("GPT2Config", "GPT2LMHeadModel", "n_positions n_embd n_layer n_head", {
        "gpt2": (1024, 768, 12, 12),
        "gpt2-medium": (1024, 1024, 24, 16),
        "gpt2-large": (1024, 1280, 36, 20),
        "gpt2-xl": (1024, 1600, 48, 25),
        "gpt3-175b": (2048, 12288, 96, 96),
    }, vocab_size=50257),
    **_rows("GPTJConfig", "GPTJForCausalLM", "n_embd n_layer n_head", {"gpt-j-6b": (4096, 28, 16)}, vocab_size=50400),
    **_rows("GPTNeoXConfig", "GPTNeoXForCausalLM", f"vocab_size {_SHAPE}", {
        "pythia-70m": (50304, 512, 2048, 6, 8),
        "pythia-160m": (50304, 768, 3072, 12, 12),
        "pythia-410m": (50304, 1024, 4096, 24, 16),
        "pythia-1b": (50304, 2048, 8192, 16, 8),
        "pythia-1.4b": (50304, 2048, 8192, 24, 16),
        "pythia-2.8b": (50304, 2560, 10240, 32, 32),
        "pythia-6.9b": (50432, 4096, 16384, 32, 32),
        "pythia-12b": (50688, 5120, 20480, 36, 40),
        "gpt-neox-20b": (50432, 6144, 24576, 44, 64),
    }),
    **_rows("OPTConfig", "OPTForCausalLM",
            "hidden_size ffn_dim num_hidden_layers num_attention_heads word_embed_proj_dim do_layer_norm_before", {
        "opt-125m": (768, 3072, 12, 12, 768, True),
        "opt-350m": (1024, 4096, 24, 16, 512, False),
        "opt-1.3b": (2048, 8192, 24, 32, 2048, True),
        "opt-2.7b": (2560, 10240, 32, 32, 2560, True),
        "opt-6.7b": (4096, 16384, 32, 32, 4096, True),
        "opt-13b": (5120, 20480, 40, 40, 5120, True),
        "opt-30b": (7168, 28672, 48, 56, 7168, True),
        "opt-66b": (9216, 36864, 64, 72, 9216, True),
    }, vocab_size=50272, max_position_embeddings=2048),
    **_rows("BloomConfig", "BloomForCausalLM", "hidden_size n_layer n_head", {
        "bloom-560m": (1024, 24, 16),
        "bloom-7b1": (4096, 30, 32),
        "bloom-176b": (14336, 70, 112),
    }, vocab_size=250880),
    **_rows("FalconConfig", "FalconForCausalLM",
            "hidden_size num_hidden_layers num_attention_heads num_kv_heads new_decoder_architecture", {
        "falcon-7b": (4544, 32, 71, None, False),
        "falcon-40b": (8192, 60, 128, 8, True),
    }, vocab_size=65024),
    **_rows("MptConfig", "MptForCausalLM", "d_model n_layers n_heads max_seq_len", {
        "mpt-7b": (4096, 32, 32, 2048),
        "mpt-30b": (7168, 48, 64, 8192),
    }, vocab_size=50432),
    **_rows("PhiConfig", "PhiForCausalLM", _SHAPE, {
        "phi-1.5": (2048, 8192, 24, 32),
        "phi-2": (2560, 10240, 32, 32),
    }, vocab_size=51200),
    **_rows("Phi3Config", "Phi3ForCausalLM", _LLAMA, {"phi-3-mini": (32064, 3072, 8192, 32, 32, 32)}),
    **_rows("LlamaConfig", "LlamaForCausalLM", f"{_LLAMA} tie_word_embeddings", {
        "llama-2-7b": (32000, 4096, 11008, 32, 32, 32, False),
        "llama-2-13b": (32000, 5120, 13824, 40, 40, 40, False),
        "llama-2-70b": (32000, 8192, 28672, 80, 64, 8, False),
        "llama-3.1-8b": (128256, 4096, 14336, 32, 32, 8, False),
        "llama-3.1-70b": (128256, 8192, 28672, 80, 64, 8, False),
        "llama-3.1-405b": (128256, 16384, 53248, 126, 128, 8, False),
        "llama-3.2-1b": (128256, 2048, 8192, 16, 32, 8, True),
        "llama-3.2-3b": (128256, 3072, 8192, 28, 24, 8, True),
        "smollm2-135m": (49152, 576, 1536, 30, 9, 3, True),
        "smollm2-360m": (49152, 960, 2560, 32, 15, 5, True),
        "smollm2-1.7b": (49152, 2048, 8192, 24, 32, 32, True),
    }),
    **_rows("SmolLM3Config", "SmolLM3ForCausalLM", _LLAMA, {
        "smollm3-3b": (128256, 2048, 11008, 36, 16, 4),
    }, tie_word_embeddings=True),
    **_rows("Llama4TextConfig", "Llama4ForCausalLM", "num_local_experts interleave_moe_layer_step use_qk_norm", {
        "llama-4-scout": (16, 1, True),
        "llama-4-maverick": (128, 2, False),
    }),
    **_rows("MistralConfig", "MistralForCausalLM", _LLAMA, {
        "mistral-7b": (32000, 4096, 14336, 32, 32, 8),
        "mistral-7b-v0.3": (32768, 4096, 14336, 32, 32, 8),
    }),
    **_rows("MixtralConfig", "MixtralForCausalLM", _LLAMA, {
        "mixtral-8x7b": (32000, 4096, 14336, 32, 32, 8),
        "mixtral-8x22b": (32000, 6144, 16384, 56, 48, 8),
    }, num_local_experts=8, num_experts_per_tok=2),
    **_rows("GemmaConfig", "GemmaForCausalLM", _LLAMA, {
        "gemma-2b": (256000, 2048, 16384, 18, 8, 1),
        "gemma-7b": (256000, 3072, 24576, 28, 16, 16),
    }, head_dim=256),
    **_rows("Gemma2Config", "Gemma2ForCausalLM", f"{_LLAMA} head_dim", {
        "gemma-2-2b": (256000, 2304, 9216, 26, 8, 4, 256),
        "gemma-2-9b": (256000, 3584, 14336, 42, 16, 8, 256),
        "gemma-2-27b": (256000, 4608, 36864, 46, 32, 16, 128),
    }),
    **_rows("Gemma3TextConfig", "Gemma3ForCausalLM", f"{_LLAMA} head_dim", {
        "gemma-3-1b": (262144, 1152, 6912, 26, 4, 1, 256),
        "gemma-3-4b": (262208, 2560, 10240, 34, 8, 4, 256),
        "gemma-3-12b": (262208, 3840, 15360, 48, 16, 8, 256),
        "gemma-3-27b": (262208, 5376, 21504, 62, 32, 16, 128),
    }),
    **_rows("Qwen2Config", "Qwen2ForCausalLM", f"{_LLAMA} tie_word_embeddings", {
        "qwen2.5-0.5b": (151936, 896, 4864, 24, 14, 2, True),
        "qwen2.5-1.5b": (151936, 1536, 8960, 28, 12, 2, True),
        "qwen2.5-7b": (152064, 3584, 18944, 28, 28, 4, False),
        "qwen2.5-72b": (152064, 8192, 29568, 80, 64, 8, False),
    }),
    **_rows("Qwen3Config", "Qwen3ForCausalLM", f"{_LLAMA} tie_word_embeddings", {
        "qwen3-0.6b": (151936, 1024, 3072, 28, 16, 8, True),
        "qwen3-8b": (151936, 4096, 12288, 36, 32, 8, False),
        "qwen3-32b": (151936, 5120, 25600, 64, 64, 8, False),
    }, head_dim=128),
    **_rows("Qwen3MoeConfig", "Qwen3MoeForCausalLM", f"{_LLAMA} moe_intermediate_size", {
        "qwen3-30b-a3b": (151936, 2048, 6144, 48, 32, 4, 768),
        "qwen3-235b-a22b": (151936, 4096, 12288, 94, 64, 4, 1536),
    }, head_dim=128, num_experts=128, num_experts_per_tok=8),
    **_rows("DeepseekV2Config", "DeepseekV2ForCausalLM", f"{_DEEPSEEK} n_routed_experts", {
        "deepseek-v2-lite": (2048, 10944, 1408, 27, 16, None, 64),
        "deepseek-v2": (5120, 12288, 1536, 60, 128, 1536, 160),
    }, vocab_size=102400, n_shared_experts=2, num_experts_per_tok=6, first_k_dense_replace=1),
    **_rows("DeepseekV3Config", "DeepseekV3ForCausalLM",
            "vocab_size num_attention_heads n_routed_experts first_k_dense_replace n_group topk_group", {
        "deepseek-v3": (129280, 128, 256, 3, 8, 4),
        "kimi-k2": (163840, 64, 384, 1, 1, 1),
    }, hidden_size=7168, intermediate_size=18432, moe_intermediate_size=2048, num_hidden_layers=61, num_experts_per_tok=8),
    **_rows("Olmo2Config", "Olmo2ForCausalLM", _LLAMA, {
        "olmo2-7b": (100352, 4096, 11008, 32, 32, 32),
        "olmo2-13b": (100352, 5120, 13824, 40, 40, 40),
    }),
    **_rows("Olmo3Config", "Olmo3ForCausalLM", _LLAMA, {"olmo3-7b": (100278, 4096, 11008, 32, 32, 32)}),
    **_rows("Starcoder2Config", "Starcoder2ForCausalLM", f"{_LLAMA} tie_word_embeddings", {
        "starcoder2-3b": (49152, 3072, 12288, 30, 24, 2, True),
        "starcoder2-7b": (49152, 4608, 18432, 32, 36, 4, True),
        "starcoder2-15b": (49152, 6144, 24576, 40, 48, 4, False),
    }),
    **_rows("CohereConfig", "CohereForCausalLM", _LLAMA, {"command-r": (256000, 8192, 22528, 40, 64, 64)}),
    **_rows("Glm4MoeConfig", "Glm4MoeForCausalLM",
            f"{_LLAMA} moe_intermediate_size n_routed_experts first_k_dense_replace use_qk_norm", {
        "glm-4.5": (151552, 5120, 12288, 92, 96, 8, 1536, 160, 3, True),
        "glm-4.5-air": (151552, 4096, 10944, 46, 96, 8, 1408, 128, 1, False),
    }, head_dim=128, attention_bias=True, n_shared_experts=1, num_experts_per_tok=8),
    **_rows("GptOssConfig", "GptOssForCausalLM", "num_hidden_layers num_local_experts", {
        "gpt-oss-20b": (24, 32),
        "gpt-oss-120b": (36, 128),
    }),
    "minicpm3-4b": Published("MiniCPM3Config", "MiniCPM3ForCausalLM", {}),
    **_rows("BertConfig", "BertForMaskedLM", _SHAPE, {
        "bert-base": (768, 3072, 12, 12),
        "bert-large": (1024, 4096, 24, 16),
    }, vocab_size=30522),
    **_rows("RobertaConfig", "RobertaForMaskedLM", "vocab_size max_position_embeddings type_vocab_size", {
        "roberta-base": (50265, 514, 1),
    }),
    **_rows("XLMRobertaConfig", "XLMRobertaForMaskedLM", _SHAPE, {
        "xlm-roberta-base": (768, 3072, 12, 12),
        "xlm-roberta-large": (1024, 4096, 24, 16),
    }, vocab_size=250002, max_position_embeddings=514, type_vocab_size=1),
    **_rows("AlbertConfig", "AlbertForMaskedLM", _SHAPE, {
        "albert-base": (768, 3072, 12, 12),
    }),
    **_rows("DebertaConfig", "DebertaModel", f"vocab_size {_SHAPE}", {
        "deberta-base": (50265, 768, 3072, 12, 12),
    }, relative_attention=True, pos_att_type="c2p|p2c", position_biased_input=False, type_vocab_size=0),
    **_rows("DebertaV2Config", "DebertaV2Model", f"vocab_size {_SHAPE}", {
        "deberta-v3-xsmall": (128100, 384, 1536, 12, 6),
        "deberta-v3-small": (128100, 768, 3072, 6, 12),
        "deberta-v3-base": (128100, 768, 3072, 12, 12),
        "deberta-v3-large": (128100, 1024, 4096, 24, 16),
        "mdeberta-v3-base": (251000, 768, 3072, 12, 12),
    }, relative_attention=True, position_buckets=256, norm_rel_ebd="layer_norm", share_att_key=True,
       pos_att_type="p2c|c2p", position_biased_input=False),
    "distilbert-base": Published("DistilBertConfig", "DistilBertForMaskedLM", {}),
    "mpnet-base": Published("MPNetConfig", "MPNetForMaskedLM", {"max_position_embeddings": 514}),
    "nomic-embed-text-v1.5": Published("NomicBertConfig", "NomicBertModel", {}),
    **_rows("ModernBertConfig", "ModernBertForMaskedLM", _SHAPE, {
        "modernbert-base": (768, 1152, 22, 12),
        "modernbert-large": (1024, 2624, 28, 16),
    }),
    **_rows("T5Config", "T5ForConditionalGeneration", "d_model d_ff num_layers num_heads", {
        "t5-small": (512, 2048, 6, 8),
        "t5-base": (768, 3072, 12, 12),
        "t5-large": (1024, 4096, 24, 16),
    }, vocab_size=32128, d_kv=64),
    **_rows("T5Config", "T5ForConditionalGeneration", "d_model d_ff num_layers num_heads", {
        "t5-v1.1-small": (512, 1024, 8, 6),
        "flan-t5-base": (768, 2048, 12, 12),
    }, vocab_size=32128, d_kv=64, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    **_rows("BartConfig", "BartForConditionalGeneration", _TWO_STACKS, {
        "bart-base": (50265, 768, *(6, 3072, 12) * 2),
        "bart-large": (50265, 1024, *(12, 4096, 16) * 2),
    }),
    **_rows("MBartConfig", "MBartForConditionalGeneration", _TWO_STACKS, {
        "mbart-large-50": (250054, 1024, *(12, 4096, 16) * 2),
    }),
    **_rows("MarianConfig", "MarianMTModel", _TWO_STACKS, {
        "opus-mt-en-de": (58101, 512, *(6, 2048, 8) * 2),
    }, max_position_embeddings=512),
    **_rows("M2M100Config", "M2M100ForConditionalGeneration", _TWO_STACKS, {
        "nllb-200-distilled-600m": (256206, 1024, *(12, 4096, 16) * 2),
    }),
}  # fmt: skip


def _rope(theta: float, **more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_theta": float(theta), "rope_type": "default", **more}}


def _llama3(factor: float, high: float = 4.0) -> dict[str, Any]:
    ramp = {
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": high,
        "original_max_position_embeddings": 8192,
    }
    return _rope(500000, **{"rope_type": "llama3", **ramp})


def _yarn(theta: float, factor: float, beta_fast: float, mscale: float) -> dict[str, Any]:
    ends = {"beta_fast": beta_fast, "beta_slow": 1.0, "original_max_position_embeddings": 4096}
    return _rope(theta, rope_type="yarn", factor=factor, mscale=mscale, mscale_all_dim=mscale, **ends)


def _gemma3(**of_full: Any) -> dict[str, Any]:
    full = {"rope_type": "default", "rope_theta": 1e6, **of_full}
    return {
        "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 1e4}, "full_attention": full}
    }


_DIVISORS = [
    1.0591234137867171, 1.1241891283591912, 1.2596935748670968, 1.5380380402321725, 2.093982484148734, 3.1446935121267696,
    4.937952647693647, 7.524541999994549, 10.475458000005451, 13.062047352306353, 14.85530648787323, 15.906017515851266,
    16.461961959767827, 16.740306425132907, 16.87581087164081, 16.940876586213285,
]  # fmt: skip
_LONGROPE = {"rope_type": "longrope", "original_max_position_embeddings": 32768, "factor": 1.0}
_OLMO3 = {
    "rope_type": "yarn",
    "factor": 8.0,
    "original_max_position_embeddings": 8192,
    "attention_factor": 1.2079441541679836,
}
_STARCODER2 = {"max_position_embeddings": 16384, "sliding_window": 4096, "bos_token_id": 0, "eos_token_id": 0}

#: What else their configs say of the function, where it is not the class's default. No shape depends on it.
_MEANING: dict[str, dict[str, Any]] = {
    "gpt2 gpt2-medium gpt2-large gpt2-xl gpt3-175b falcon-7b falcon-40b mpt-7b mpt-30b gemma-2b gemma-7b": {},
    "gpt-oss-20b gpt-oss-120b opt-125m opt-350m opt-1.3b opt-2.7b opt-6.7b opt-13b opt-30b opt-66b": {},
    "gpt-j-6b": {"rotary_dim": 64},
    "pythia-70m pythia-160m pythia-410m pythia-1b pythia-1.4b pythia-2.8b pythia-6.9b pythia-12b": {"rotary_pct": 0.25},
    "gpt-neox-20b": {"rotary_pct": 0.25, "hidden_act": "gelu_fast"},
    "bloom-560m bloom-7b1 bloom-176b": {"seq_length": 2048},
    "phi-1.5": {"partial_rotary_factor": 0.5},
    "phi-2": {"partial_rotary_factor": 0.4, "resid_pdrop": 0.1},
    "phi-3-mini": {"sliding_window": 2047, "max_position_embeddings": 4096},
    "llama-2-7b llama-2-13b llama-2-70b": {"max_position_embeddings": 4096, "rms_norm_eps": 1e-5},
    "llama-3.1-8b llama-3.1-70b llama-3.1-405b": {"max_position_embeddings": 131072, "rms_norm_eps": 1e-5, **_llama3(8.0)},
    "llama-3.2-1b llama-3.2-3b": {"max_position_embeddings": 131072, "rms_norm_eps": 1e-5, **_llama3(32.0)},
    "llama-4-scout": {"max_position_embeddings": 10485760, **_llama3(16.0, 1.0)},
    "llama-4-maverick": {"max_position_embeddings": 1048576, **_rope(500000)},
    "smollm2-135m smollm2-360m": {"max_position_embeddings": 8192, "rms_norm_eps": 1e-5, **_rope(100000)},
    "smollm2-1.7b": {"max_position_embeddings": 8192, "rms_norm_eps": 1e-5, **_rope(130000)},
    "smollm3-3b": {"max_position_embeddings": 65536, **_rope(5e6)},
    "mistral-7b": {"max_position_embeddings": 32768, "rms_norm_eps": 1e-5, "sliding_window": 4096},
    "mistral-7b-v0.3": {"max_position_embeddings": 32768, "rms_norm_eps": 1e-5, "sliding_window": None, **_rope(1e6)},
    "mixtral-8x7b": {"max_position_embeddings": 32768, **_rope(1e6)},
    "mixtral-8x22b": {"max_position_embeddings": 65536, **_rope(1e6)},
    "gemma-2-2b gemma-2-9b": {"query_pre_attn_scalar": 256},
    "gemma-2-27b": {"query_pre_attn_scalar": 144},
    "gemma-3-1b": {"sliding_window": 512, "max_position_embeddings": 32768, **_gemma3()},
    "gemma-3-4b gemma-3-12b": {"sliding_window": 1024, **_gemma3(rope_type="linear", factor=8.0)},
    "gemma-3-27b": {"sliding_window": 1024, "query_pre_attn_scalar": 168, **_gemma3(rope_type="linear", factor=8.0)},
    "qwen2.5-0.5b": {"max_position_embeddings": 32768, **_rope(1e6)},
    "qwen2.5-1.5b qwen2.5-7b": {"max_position_embeddings": 131072, **_rope(1e6)},
    "qwen2.5-72b": {"max_position_embeddings": 131072, "rms_norm_eps": 1e-5, **_rope(1e6)},
    "qwen3-0.6b qwen3-8b qwen3-32b": {"max_position_embeddings": 40960, **_rope(1e6)},
    "qwen3-30b-a3b qwen3-235b-a22b": {"max_position_embeddings": 40960, "norm_topk_prob": True, **_rope(1e6)},
    "deepseek-v2-lite": {"max_position_embeddings": 163840, **_yarn(1e4, 40.0, 32.0, 0.707)},
    "deepseek-v2": {
        "max_position_embeddings": 163840, "topk_method": "group_limited_greedy", "n_group": 8, "topk_group": 3,
        "routed_scaling_factor": 16.0, **_yarn(1e4, 40.0, 32.0, 0.707),
    },
    "deepseek-v3": {"max_position_embeddings": 163840, "routed_scaling_factor": 2.5, **_yarn(1e4, 40.0, 32.0, 1.0)},
    "kimi-k2": {"max_position_embeddings": 131072, "routed_scaling_factor": 2.827, **_yarn(5e4, 32.0, 1.0, 1.0)},
    "olmo2-7b olmo2-13b": {"max_position_embeddings": 4096, "rms_norm_eps": 1e-6, **_rope(500000)},
    "olmo3-7b": {"max_position_embeddings": 65536, "rms_norm_eps": 1e-6, "rope_theta": 500000.0, "rope_scaling": _OLMO3},
    "starcoder2-3b": {**_STARCODER2, **_rope(999999.4420358813)},
    "starcoder2-7b": {**_STARCODER2, **_rope(1e6)},
    "starcoder2-15b": {**_STARCODER2, **_rope(1e5)},
    "command-r": {"max_position_embeddings": 131072, **_rope(8e6)},
    "glm-4.5": {"routed_scaling_factor": 2.5, **_rope(1e6, partial_rotary_factor=0.5)},
    "glm-4.5-air": _rope(1e6, partial_rotary_factor=0.5),
    "minicpm3-4b": _rope(1e4, **{**_LONGROPE, "short_factor": _DIVISORS, "long_factor": _DIVISORS}),
    "deberta-base deberta-v3-xsmall deberta-v3-small deberta-v3-base deberta-v3-large mdeberta-v3-base": {},
    "bert-base bert-large albert-base distilbert-base modernbert-base modernbert-large": {},
    "roberta-base xlm-roberta-base xlm-roberta-large mpnet-base": {"layer_norm_eps": 1e-5},
    "nomic-embed-text-v1.5": {"max_position_embeddings": 8192},
    "t5-small t5-base t5-large t5-v1.1-small flan-t5-base": {"n_positions": 512},
    "bart-base bart-large nllb-200-distilled-600m": {},
    "mbart-large-50": {"scale_embedding": True, "activation_function": "relu"},
    "opus-mt-en-de": {"scale_embedding": True, "activation_function": "swish"},
}  # fmt: skip
MEANING = {name: more for names, more in _MEANING.items() for name in names.split()}


def config(name: str) -> dict[str, Any]:
    """A published `config.json`, as transformers 5.24 writes it."""
    import transformers

    model = PUBLISHED[name]
    made: dict[str, Any] = getattr(transformers, model.config)(**model.sizes, **MEANING.get(name, {})).to_dict()
    said = {key: model.sizes[key] for key in ("tie_word_embeddings",) if key in model.sizes}  # a T5's is forgotten
    return {**made, **said, "architectures": [model.model]}


def parameters(model: Published) -> int:
    """Unique parameters of the transformers class, built on the meta device: shapes without memory.

    With the head that some T5s have, which the class ties, and the bias of Marian's logits, which is a buffer there; without tables
    of sines, which are frozen parameters there.
    """
    import torch
    import transformers

    with torch.device("meta"):
        built = getattr(transformers, model.model)(getattr(transformers, model.config)(**model.sizes))
    weights = {id(p): p for p in built.parameters() if p.requires_grad}
    if model.config == "T5Config" and not model.sizes.get("tie_word_embeddings", True):
        weights[0] = built.lm_head.weight
    if model.config == "MarianConfig":
        weights[0] = built.final_logits_bias
    return sum(p.numel() for p in weights.values())
