"""The families: one table each."""

from __future__ import annotations

from . import configs
from .maps import Family, rule, under
from .transforms import Fuse, RopeOrder, Transpose

#: Our own files: every tensor under its path.
ARCHSPEC = Family("archspec", (rule("{path}", "{path}"),), {}, "archspec")

_GPT2_LAYER = (
    rule("attention_input_norm.*", "ln_1.*"),
    rule("attention.q.* attention.k.* attention.v.*", "attn.c_attn.*", Fuse(), Transpose()),
    rule("attention.o.*", "attn.c_proj.*", Transpose()),
    rule("ffn_input_norm.*", "ln_2.*"),
    rule("ffn.up.*", "mlp.c_fc.*", Transpose()),
    rule("ffn.down.*", "mlp.c_proj.*", Transpose()),
)

GPT2 = Family(
    name="gpt2",
    read=configs.read_gpt2,
    write=configs.write_gpt2,
    types=("gpt2",),
    base="transformer.",
    body=(
        rule("decoder.embedding.tokens.weight", "wte.weight"),
        rule("decoder.embedding.positions.weight", "wpe.weight"),
        *under("decoder.layers.{i}.", "h.{i}.", _GPT2_LAYER),
        rule("decoder.final_norm.*", "ln_f.*"),
    ),
    heads={"lm": (rule("head.out.*", "lm_head.*"),)},
    buffers=("h.{i}.attn.bias", "h.{i}.attn.masked_bias"),
)

_BERT_LAYER = (
    rule("attention.q.*", "attention.self.query.*"),
    rule("attention.k.*", "attention.self.key.*"),
    rule("attention.v.*", "attention.self.value.*"),
    rule("attention.o.*", "attention.output.dense.*"),
    rule("attention_outer_norm.*", "attention.output.LayerNorm.*"),
    rule("ffn.up.*", "intermediate.dense.*"),
    rule("ffn.down.*", "output.dense.*"),
    rule("ffn_outer_norm.*", "output.LayerNorm.*"),
)

BERT = Family(
    name="bert",
    read=configs.read_bert,
    write=configs.write_bert,
    types=("bert",),
    base="bert.",
    body=(
        rule("encoder.embedding.tokens.weight", "embeddings.word_embeddings.weight"),
        rule("encoder.embedding.positions.weight", "embeddings.position_embeddings.weight"),
        rule("encoder.embedding.types.weight", "embeddings.token_type_embeddings.weight"),
        rule("encoder.embedding.norm.*", "embeddings.LayerNorm.*"),
        *under("encoder.layers.{i}.", "encoder.layer.{i}.", _BERT_LAYER),
    ),
    heads={
        "lm": (
            rule("head.dense.*", "cls.predictions.transform.dense.*"),
            rule("head.norm.*", "cls.predictions.transform.LayerNorm.*"),
            rule("head.out.weight", "cls.predictions.decoder.weight"),
            rule("head.out.bias", "cls.predictions.bias", copies="cls.predictions.decoder.bias"),
        ),
        "pooler": (rule("head.dense.*", "{base}pooler.dense.*"),),
    },
    buffers=("embeddings.position_ids", "embeddings.token_type_ids"),
    aside=("cls.seq_relationship.*",),
)

_LLAMA_LAYER = (
    rule("attention_input_norm.weight", "input_layernorm.weight"),
    rule("attention.q.*", "self_attn.q_proj.*"),
    rule("attention.k.*", "self_attn.k_proj.*"),
    rule("attention.v.*", "self_attn.v_proj.*"),
    rule("attention.o.*", "self_attn.o_proj.*"),
    rule("ffn_input_norm.weight", "post_attention_layernorm.weight"),
    rule("ffn.gate.*", "mlp.gate_proj.*"),
    rule("ffn.up.*", "mlp.up_proj.*"),
    rule("ffn.down.*", "mlp.down_proj.*"),
)

LLAMA = Family(
    name="llama",
    read=configs.read_llama,
    write=configs.write_llama,
    types=("llama",),
    base="model.",
    body=(
        rule("decoder.embedding.tokens.weight", "embed_tokens.weight"),
        *under("decoder.layers.{i}.", "layers.{i}.", _LLAMA_LAYER),
        rule("decoder.final_norm.weight", "norm.weight"),
    ),
    heads={"lm": (rule("head.out.weight", "lm_head.weight"),)},
    buffers=("layers.{i}.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq"),
)

_LLAMA_GGUF_LAYER = (
    rule("attention_input_norm.weight", "attn_norm.weight"),
    rule("attention.q.*", "attn_q.*", RopeOrder()),
    rule("attention.k.*", "attn_k.*", RopeOrder()),
    rule("attention.v.*", "attn_v.*"),
    rule("attention.o.*", "attn_output.*"),
    rule("ffn_input_norm.weight", "ffn_norm.weight"),
    rule("ffn.gate.*", "ffn_gate.*"),
    rule("ffn.up.*", "ffn_up.*"),
    rule("ffn.down.*", "ffn_down.*"),
)

LLAMA_GGUF = Family(
    name="llama (GGUF)",
    read=configs.read_llama_gguf,
    format="gguf",
    types=("llama",),
    body=(
        rule("decoder.embedding.tokens.weight", "token_embd.weight"),
        *under("decoder.layers.{i}.", "blk.{i}.", _LLAMA_GGUF_LAYER),
        rule("decoder.final_norm.weight", "output_norm.weight"),
    ),
    heads={"lm": (rule("head.out.weight", "output.weight"),)},
)

FAMILIES = (ARCHSPEC, GPT2, BERT, LLAMA, LLAMA_GGUF)
