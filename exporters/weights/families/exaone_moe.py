"""EXAONE with experts: windows with a rotation, full layers without; experts as DeepSeek-V3 has them."""

from __future__ import annotations

from ..blocks import (
    Block,
    Written,
    biased_router,
    decoder,
    dense_or_sparse,
    each,
    every,
    expert_groups,
    grouped,
    layer_types,
    rmsnorm,
    sparse_layers,
)
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, GATED, PRE_NORMS, QK_NORM, decoder_family, experts, shared
from ..rotary import rope


def read(c: Ledger) -> Written:
    """ExaoneMoeConfig."""
    window, position = c.stated("sliding_window", 4096), rope(c)
    pattern, dense = c.get("sliding_window_pattern", 4), c.get("first_k_dense_replace", 1)
    types = layer_types(c, every(pattern) if isinstance(pattern, int) and window else None)
    sparse = sparse_layers(c, lambda i: i >= dense)
    router = biased_router(c, 2.5, expert_groups(c, "top2_sum"))

    def block(i: int) -> Block:
        seen = window if types[i] == "sliding_attention" else None
        attention = {
            **grouped(c),
            "qk_norm": {"over": "head"},
            "position": position if seen or window is None else "none",
            "window": seen,
        }
        return {"attention": attention, "ffn": dense_or_sparse(c, sparse[i], router)}

    return decoder(c, norm=rmsnorm(c, 1e-5), layers=each(c, block), tied=False)


FAMILY = decoder_family(
    "exaone_moe",
    read,
    (
        *PRE_NORMS,
        *ATTENTION,
        *QK_NORM,
        *GATED,
        rule("ffn.selection_bias", "mlp.e_score_correction_bias"),
        *experts(),
        *shared(),
    ),
    aside=("mtp.{path}",),
)
