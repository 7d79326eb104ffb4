from typing import Any

from parity import Case, base


def dbrx(**experts: Any) -> dict[str, Any]:
    ffn = {"ffn_hidden_size": 12, "moe_num_experts": 5, "moe_top_k": 2, **experts}
    return base(
        attn_config={"kv_n_heads": 2, "clip_qkv": 0.8, "rope_theta": 10000.0},
        ffn_config=ffn,
        max_seq_len=48,
        d_model=24,
    )


CASES = [
    Case("dbrx", "DbrxConfig", "DbrxForCausalLM", dbrx()),
    Case("dbrx (weights that add up to anything)", "DbrxConfig", "DbrxForCausalLM", dbrx(moe_normalize_expert_weights=None)),
    Case("dbrx (2-norm)", "DbrxConfig", "DbrxForCausalLM", dbrx(moe_normalize_expert_weights=2.0),
         reason="weights divided by the root of the sum of their squares"),
]  # fmt: skip
