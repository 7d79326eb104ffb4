"""Heads, scores, positions, windows and masks of one layer's attention."""

from __future__ import annotations

from archspec.diagnostics import either
from archspec.language.attention import CrossAttention, Heads, LatentAttention, SlidingWindow, SoftmaxAttention
from archspec.language.norms import L2Norm, Norm, RMSNorm
from archspec.language.positions import LongRopeScaling, Rope, RopeScaling, YarnScaling

from ..nodes import Report
from .layers import Site, neighbours, value_of
from .positions import check_position


def check_attention(site: Site, report: Report) -> None:
    """Report on the self and the cross attention of a layer."""
    attention, cross = site.layer.attention, site.layer.cross_attention
    if isinstance(attention, SoftmaxAttention):
        _heads(site, "attention", attention, report)
        _scale(site, "attention", attention, attention.head_dim, report)
        _order(site, attention, report)
        _mask(site, attention, report)
    if isinstance(attention, LatentAttention):
        _scale(site, "attention", attention, attention.qk_nope_head_dim + attention.qk_rope_head_dim, report)
    if isinstance(attention, SoftmaxAttention | LatentAttention):
        check_position(site, attention, report)
        _window(site, attention, report)
    if isinstance(cross, CrossAttention):
        _heads(site, "cross_attention", cross, report)
        _scale(site, "cross_attention", cross, cross.head_dim, report)


def _heads(site: Site, name: str, attention: Heads, report: Report) -> None:
    heads, kv_heads, width = attention.heads, attention.kv_heads, site.spec.d_model
    if attention.head_dim is None:
        near = " or ".join(map(str, neighbours(width, heads)))
        remedy = f"{near} heads, or state `head_dim`"
        report.error("A201", f"{width} does not split into {heads} heads", site.place(name, "heads"), remedy)
        return  # another number of heads may suit kv_heads
    if kv_heads is None or heads % kv_heads == 0:
        return
    place = site.place(name, "kv_heads")
    if kv_heads > heads:
        report.error("A203", f"more key/value heads ({kv_heads}) than query heads ({heads})", place, "swap them?")
    else:
        near = either(map(str, _near_divisors(heads, kv_heads)))
        message = f"{heads} query heads cannot share {kv_heads} key/value heads"
        report.error("A202", message, place, f"kv_heads must divide heads: {near} would")


def _near_divisors(whole: int, near: int) -> list[int]:
    """The divisor of `whole` below `near`, and the two above."""
    limit = min(whole, 4096)  # heads are few; a huge number is a mistake and needs no long search
    divisors = [n for n in range(1, limit + 1) if whole % n == 0]
    below = [n for n in divisors if n < near]
    return below[-1:] + [n for n in divisors if n > near][:2]


def _scale(site: Site, name: str, attention: Heads | LatentAttention, head_dim: int | None, report: Report) -> None:
    if head_dim is None:
        return
    value = value_of(attention.scale, d_model=site.spec.d_model, head_dim=head_dim, layers=site.depth)
    if value is not None and 0 < value <= 1:
        return
    place = site.place(name, "scale")
    if value is None:
        report.error("A209", f"the scale {attention.scale} is not a number", place, "nothing divides by zero")
    else:
        usual = f"1/sqrt(head_dim) is {head_dim**-0.5:.3g}"
        report.warn(
            "A208", f"the scale {value:.3g} multiplies the scores; the usual {usual}", place, "1/sqrt(head_dim)?"
        )


def _order(site: Site, attention: SoftmaxAttention, report: Report) -> None:
    qk_norm = attention.qk_norm
    if qk_norm is None or qk_norm.order == "before_rope":
        return
    place = site.place("attention", "qk_norm", "order")
    if not isinstance(attention.position, Rope):
        report.error("A311", "`order: after_rope`, and there is no rope", place, "remove the line")
    elif _weightless(qk_norm.norm) and not _lengthens(attention.position.scaling):
        message = "a rotation keeps the length, so a norm without weight gives the same before it"
        report.warn("A311", message, place, "remove the line")


def _weightless(norm: Norm) -> bool:
    return isinstance(norm, L2Norm) or (isinstance(norm, RMSNorm) and norm.weight == "none")


def _lengthens(scaling: RopeScaling | None) -> bool:
    """Whether cos and sin may be multiplied by something."""
    return isinstance(scaling, LongRopeScaling) or (
        isinstance(scaling, YarnScaling) and scaling.mscale_on == "rotation"
    )


def _window(site: Site, attention: SoftmaxAttention | LatentAttention, report: Report) -> None:
    window, context = attention.window, site.spec.context_length
    if window is None or context is None:
        return
    # an encoder's window of `size` reaches as far to either side, a decoder's counts the token itself
    far = window.size + 1 if site.stack == "encoder" and isinstance(window, SlidingWindow) else window.size
    if far >= context:
        message = f"the window ({window.size}) covers the whole context ({context})"
        report.warn("A305", message, site.place("attention", "window"), "remove the window")


def _mask(site: Site, attention: SoftmaxAttention, report: Report) -> None:
    legal = ("bidirectional",) if site.stack == "encoder" else ("causal", "prefix")
    if attention.mask in legal or attention.mask is None:
        return
    if site.stack == "encoder":
        message, remedy = (
            f"an encoder sees both sides; its mask cannot be `{attention.mask}`",
            "write it as a `decoder`",
        )
    else:
        message, remedy = "a decoder sees the past; its mask cannot be `bidirectional`", "write it as an `encoder`"
    report.error("A306", message, site.place("attention", "mask"), remedy)
