from parity import Case, base

CASES = [
    Case("opt", "OPTConfig", "OPTForCausalLM", base(ffn_dim=40)),
    Case("opt (narrow table, post-norm)", "OPTConfig", "OPTForCausalLM",
         base(ffn_dim=40, word_embed_proj_dim=16, do_layer_norm_before=False)),
    Case("opt (no bias, no last norm)", "OPTConfig", "OPTForCausalLM",
         base(ffn_dim=40, enable_bias=False, activation_function="gelu", _remove_final_layer_norm=True,
              tie_word_embeddings=False)),
    Case("opt (norms without weights)", "OPTConfig", "OPTForCausalLM",
         base(ffn_dim=40, layer_norm_elementwise_affine=False)),
    Case("opt (narrow table, untied)", "OPTConfig", "OPTForCausalLM",
         base(ffn_dim=40, word_embed_proj_dim=16, tie_word_embeddings=False),
         reason="a head of its own on a narrower vector"),
]  # fmt: skip
