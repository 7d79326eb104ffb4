"""Queries, keys and values as one product: three matrices that are read for the same x are read in one go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..stored import Product
from ..words import OnnxRun
from .fusion import Fusion

NAMES = ("q", "k", "v")


def pack_products(run: OnnxRun) -> Fusion | None:
    """`….q`, `….k` and `….v` of one x become a product and a Split. All graphs of a folder pack the same, and share the weight."""
    places = [path.removesuffix("q") for path in run.products if path.endswith(".q")]
    fused, left = 0, Counter[str]()
    for place in places:
        three = [p for name in NAMES if (p := run.products.get(place + name))]
        reread = not run.reread.isdisjoint(place + name for name in NAMES)
        if reason := "distances are read by them too" if reread else _unfit(run, three):
            left[reason] += 1
            continue
        node = three[0].y.producer()
        assert node is not None
        with run.g.before(node):
            stored = three[0].weight.removesuffix("q.weight")  # another layer's, where they share their weights
            whole = run.side_by_side(three, f"{stored}qkv")
            parts = run.g.nodes("Split", len(three), whole, run.g.const([p.out for p in three]), axis=-1)
        for product, part in zip(three, parts, strict=True):
            run.g.swap(product.y, part)
        fused += 1
    if not fused:
        return None
    return Fusion("one product", "query, key and value projections", fused, left)


def _unfit(run: OnnxRun, three: Sequence[Product]) -> str | None:
    """Why these are not packed."""
    if len(three) < len(NAMES) or len({p.x for p in three}) > 1:
        return "keys are made of something else than queries"
    in_blocks = {p.raw in run.quantised_products for p in three}
    return "some in blocks, some not" if len(in_blocks) > 1 else None
