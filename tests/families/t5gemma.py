from typing import Any

from parity import VOCAB, Case, base


def config(encoder: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Two stacks of Gemma 2's layers, the encoder's with keys of its own."""
    stack = base(head_dim=8, num_hidden_layers=4, sliding_window=4, query_pre_attn_scalar=6, num_key_value_heads=2)
    own = {"num_hidden_layers": 3, "intermediate_size": 36, **(encoder or {})}
    return {"encoder": stack | own, "decoder": stack | changes, "vocab_size": VOCAB, "pad_token_id": 0}


def case(name: str, values: dict[str, Any], reason: str | None = None) -> Case:
    return Case(f"t5gemma{name}", "T5GemmaConfig", "T5GemmaForConditionalGeneration", values, form="encoder_decoder",
                padding=("left", "right"), reason=reason)  # fmt: skip


CASES = [
    case("", config()),
    case(" (no softcaps)", config(encoder={"attn_logit_softcapping": None}, attn_logit_softcapping=None,
                                  final_logit_softcapping=None)),
    case(" (a wider decoder)", config(hidden_size=48), reason="stacks of two widths"),
]  # fmt: skip
