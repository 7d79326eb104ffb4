"""How many query-key pairs a mask lets through: T queries at positions P … P + T - 1, exact, in closed form."""

from __future__ import annotations

from archspec.ops.words import Mask


def pairs(mask: Mask, new: int, past: int) -> int:
    """Pairs (i, j) that attention really uses, for `new` queries after `past` tokens.

    A prefix mask counts as causal: the length of its prefix is a fact of the run, not of the model.
    """
    end = past + new
    if mask.kind == "full":
        return _near(end, mask.window, mask.chunk)
    if mask.chunk:
        return _in_chunks(end, mask.chunk) - _in_chunks(past, mask.chunk)
    return _behind(end, mask.window) - _behind(past, mask.window)


def _behind(n: int, window: int | None) -> int:
    """Σ over i < n of min(i + 1, window)."""
    ramp = n if window is None else min(n, window)
    return ramp * (ramp + 1) // 2 + (n - ramp) * (window or 0)


def _in_chunks(n: int, size: int) -> int:
    """Σ over i < n of i mod size + 1."""
    whole, rest = divmod(n, size)
    return whole * (size * (size + 1) // 2) + rest * (rest + 1) // 2


def _near(n: int, window: int | None, chunk: int | None) -> int:
    """Pairs with |i - j| ≤ window, or in the same chunk, among n tokens that see both sides."""
    if chunk:
        whole, rest = divmod(n, chunk)
        return whole * chunk * chunk + rest * rest
    w = min(n - 1 if window is None else window, max(n - 1, 0))
    return n + 2 * (w * n - w * (w + 1) // 2)
