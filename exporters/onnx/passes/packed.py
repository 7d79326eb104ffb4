"""Queries, keys and values as one product: three matrices that are read for the same x are read in one go."""

from __future__ import annotations

from ..words import OnnxRun
from .fusion import Fusion

NAMES = ("q", "k", "v")


def pack_products(run: OnnxRun) -> Fusion | None:
    """`….q`, `….k` and `….v` of one x become a product and a Split. All graphs of a folder pack the same, and share the weight."""
    places = [path.removesuffix("q") for path in run.products if path.endswith(".q")]
    fused, left = 0, 0
    for place in places:
        products = [run.products.get(place + name) for name in NAMES]
        three = [p for p in products if p]
        if len(three) < len(NAMES) or len({p.x for p in three}) > 1:
            left += 1
            continue
        node = three[0].y.producer()
        assert node is not None
        with run.g.before(node):
            whole = run.side_by_side(three, f"{place}qkv")
            parts = run.g.nodes("Split", len(three), whole, run.g.const([p.out for p in three]), axis=-1)
        for product, part in zip(three, parts, strict=True):
            run.g.swap(product.y, part)
        fused += 1
    if not fused:
        return None
    reasons = {"keys are made of something else than queries": left} if left else {}
    return Fusion("one product", "query, key and value projections", fused, reasons)
