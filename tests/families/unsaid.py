"""Families that the language cannot say; their reasons are the importer's."""

from parity import Case, base, mla, moe

from archspec.exporters.weights.unsaid import UNSAID

INDEXED = mla(index_topk=4, index_head_dim=8, index_n_heads=2)
WINDOWS = {"num_hidden_layers": 4, "sliding_window": 4}
DOTS3 = {
    "swa_num_attention_heads": 2, "swa_num_key_value_heads": 2, "swa_q_lora_rank": 8, "swa_kv_lora_rank": 8, "swa_head_dim": 12,
    "swa_qk_nope_head_dim": 8, "swa_v_head_dim": 8,
}  # fmt: skip
GEMMA = base(num_hidden_layers=4, sliding_window=4, vocab_size_per_layer_input=61, hidden_size_per_layer_input=8)
BLOCKS = {
    "index_head_dim": 4,
    "index_n_heads": 2,
    "index_block_size": 4,
    "index_topk_blocks": 2,
    "index_local_blocks": 1,
}
#: An encoder-decoder as BART's family says it, and as T5's.
BART = {
    "vocab_size": 61, "d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "pad_token_id": 0,
}  # fmt: skip
T5 = {"vocab_size": 61, "d_model": 24, "d_kv": 4, "d_ff": 40, "num_layers": 2, "num_heads": 6, "pad_token_id": 0}
SMALL = {"vocab_size": 61, "num_attention_heads": 6}


def case(name: str, config: str, model: str, values: dict[str, object], kind: str = "") -> Case:
    return Case(name, f"{config}Config", f"{config}{model}", values, module=name, reason=UNSAID[kind or name])


CASES = [
    case("axk2", "AXK2", "ForCausalLM", INDEXED),
    case("bigbird_pegasus", "BigBirdPegasus", "ForConditionalGeneration", BART),
    case("blenderbot_small", "BlenderbotSmall", "ForConditionalGeneration", BART, kind="blenderbot-small"),
    case("cpmant", "CpmAnt", "ForCausalLM",
         SMALL | {"hidden_size": 24, "dim_head": 4, "dim_ff": 40, "num_hidden_layers": 2, "prompt_types": 8, "prompt_length": 2,
                  "segment_types": 4}),
    case("deepseek_v32", "DeepseekV32", "ForCausalLM", INDEXED),
    case("deepseek_v4", "DeepseekV4", "ForCausalLM", mla(head_dim=16, num_key_value_heads=1)),
    case("diffllama", "DiffLlama", "ForCausalLM", base()),
    case("doge", "Doge", "ForCausalLM", base()),
    case("dory", "Dory", "ForCausalLM", base(**WINDOWS)),
    Case("dots3_note", "Dots3NoteTextConfig", "Dots3NoteForCausalLM", INDEXED | DOTS3 | {"sliding_window": 4},
         module="dots3_note", reason=UNSAID["dots3_note_text"]),
    Case("gemma3n", "Gemma3nTextConfig", "Gemma3nForCausalLM",
         GEMMA | {"intermediate_size": [40] * 4, "laurel_rank": 4, "num_kv_shared_layers": 2, "altup_num_inputs": 2,
                  "activation_sparsity_pattern": [0.5, 0.0, 0.0, 0.0],
                  "layer_types": ["sliding_attention", "full_attention"] * 2}, reason=UNSAID["gemma3n_text"]),
    Case("gemma4", "Gemma4TextConfig", "Gemma4ForCausalLM",
         GEMMA | {"num_kv_shared_layers": 0, "global_head_dim": 8, "num_global_key_value_heads": 2,
                  "layer_types": ["sliding_attention", "full_attention"] * 2}, reason=UNSAID["gemma4_text"]),
    case("glm_moe_dsa", "GlmMoeDsa", "ForCausalLM", INDEXED),
    case("hrm_text", "HrmText", "ForCausalLM", base(num_key_value_heads=6)),
    case("hy_v4", "HYV4", "ForCausalLM", INDEXED),
    case("jetmoe", "JetMoe", "ForCausalLM", moe(kv_channels=4)),
    case("led", "LED", "ForConditionalGeneration", BART | {"attention_window": 4}),
    case("longcat_flash", "LongcatFlash", "ForCausalLM",
         mla(num_layers=2, ffn_hidden_size=40, expert_ffn_hidden_size=12, zero_expert_num=2, moe_topk=2)),
    case("longt5", "LongT5", "ForConditionalGeneration", T5 | {"encoder_attention_type": "transient-global"}),
    Case("minimax_m3_vl", "MiniMaxM3VLTextConfig", "MiniMaxM3VLForCausalLM",
         moe(dense_intermediate_size=40, shared_intermediate_size=12, **BLOCKS), module="minimax_m3_vl",
         reason=UNSAID["minimax_m3_vl_text"]),
    Case("mistral_large4", "MistralLarge4TextConfig", "MistralLarge4TextModel", INDEXED | {"num_hidden_layers": 4},
         module="mistral_large4", reason=UNSAID["mistral_large4_text"]),
    case("prophetnet", "ProphetNet", "ForConditionalGeneration",
         {"vocab_size": 61, "hidden_size": 24, "num_encoder_layers": 2, "num_decoder_layers": 2, "encoder_ffn_dim": 40,
          "decoder_ffn_dim": 40, "num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4, "pad_token_id": 0}),
    case("switch_transformers", "SwitchTransformers", "ForConditionalGeneration", T5 | {"num_experts": 2}),
    case("xlnet", "XLNet", "LMHeadModel",
         {"vocab_size": 61, "d_model": 24, "n_layer": 2, "n_head": 6, "d_inner": 40}),
]  # fmt: skip
