"""From operators of opset 23 to the fused ones of ONNX Runtime (`com.microsoft`), on a graph that is finished.

A pass works from what the words left behind about the graph (`OrtRun.attended`, `products`, …), not from patterns of nodes. What
it cannot fuse stays in the standard form, and it says why.
"""

from __future__ import annotations

from collections.abc import Callable

from .fusion import Fusion
from .grouped_query import fuse_attention
from .mixture import report_mixtures
from .nbits import fuse_lookups, fuse_products
from .packed import pack_products
from .run import OrtRun
from .skip_norm import fuse_skip_norms

#: In this order: a product is packed before what reads it is fused.
PASSES: tuple[Callable[[OrtRun], Fusion | None], ...] = (
    pack_products,
    fuse_products,
    fuse_lookups,
    fuse_attention,
    report_mixtures,
    fuse_skip_norms,
)


def fuse(run: OrtRun) -> tuple[Fusion, ...]:
    """Run every pass over a finished graph. What each did; nothing of passes that found nothing to look at."""
    done = (apply(run) for apply in PASSES)
    return tuple(fusion for fusion in done if fusion)
