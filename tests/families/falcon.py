from typing import Any

from parity import Case, base


def falcon(**changes: Any) -> dict[str, Any]:
    values = base(ffn_hidden_size=40, **changes)
    del values["head_dim"]  # a property
    return values


NEW = falcon(new_decoder_architecture=True, num_kv_heads=2)
# `eager` adds the bias of ALiBi twice, `sdpa` once
ALIBI = falcon(alibi=True, multi_query=False, parallel_attn=False, bias=True)
CASES = [
    Case("falcon", "FalconConfig", "FalconForCausalLM", NEW),
    Case("falcon (one norm)", "FalconConfig", "FalconForCausalLM", NEW | {"num_ln_in_parallel_attn": 1, "bias": True}),
    Case("falcon_mqa", "FalconConfig", "FalconForCausalLM", falcon(tie_word_embeddings=False)),
    Case("falcon (heads of their own)", "FalconConfig", "FalconForCausalLM", falcon(multi_query=False)),
    Case("falcon_alibi", "FalconConfig", "FalconForCausalLM", ALIBI, attention="sdpa"),
]
