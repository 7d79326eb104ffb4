"""Mixtures of experts: that the router can choose as many as it should, and that its weights mean something."""

from __future__ import annotations

from archspec.diagnostics import Place
from archspec.language.ffn import ExpertGroups, Moe

from ..nodes import Report
from .layers import Site, neighbours


def check_experts(site: Site, report: Report) -> None:
    """Report on the experts of a layer, its router and their groups."""
    moe = site.layer.ffn
    if not isinstance(moe, Moe):
        return
    if moe.experts == 1:
        report.error("A505", "one expert needs no router", site.place("ffn", "experts"), "use the expert as the ffn")
    elif moe.top_k > moe.experts:
        message = f"a token cannot take {moe.top_k} of {moe.experts} experts"
        report.error("A501", message, site.place("ffn", "top_k"), f"top_k at most {moe.experts}")
    elif moe.router.groups is not None:
        _groups(site, moe, moe.router.groups, report)
    _score(site, moe, report)
    _weights(site, moe, report)
    for key in ("placement", "residual", "branch_norm"):
        if getattr(moe.expert, key) is not None:
            message = "an expert stands in no residual of its own, and has no norms to place"
            report.error("A509", message, site.place("ffn", "expert", key), "write it beside `experts`")
    if moe.latent is not None and moe.latent.dim >= site.spec.d_model:
        message = f"a latent of {moe.latent.dim} is no narrower than the {site.spec.d_model} channels it is made of"
        report.warn("A508", message, site.place("ffn", "latent", "dim"), "a narrower one, or remove `latent`")


def _score(site: Site, moe: Moe, report: Report) -> None:
    r, mixer = moe.router, moe.router.score == "sparsemixer"
    if mixer and r.within is None:
        message = "sparsemixer weighs an expert among those near it, and `within` says how near"
        report.error("A510", message, site.place("ffn", "router", "score"), "for example `within: 0.02`")
    if not mixer and r.within is not None:
        message = f"a {r.score} of all logits does not ask which are near"
        report.error("A510", message, site.place("ffn", "router", "within"), "remove it, or `score: sparsemixer`")
    for key, there in (("selection_bias", r.selection_bias != "none"), ("groups", r.groups is not None)):
        if mixer and there:
            message = "sparsemixer chooses the best logits, one after the other"
            report.error("A510", message, site.place("ffn", "router", key), f"remove `{key}`")


def _groups(site: Site, moe: Moe, groups: ExpertGroups, report: Report) -> None:
    count, keep, size = groups.count, groups.keep, moe.experts // groups.count

    def place(key: str) -> Place:
        return site.place("ffn", "router", "groups", key)

    if moe.experts % count:
        fits = " or ".join(map(str, neighbours(moe.experts, count)))
        report.error(
            "A502", f"{moe.experts} experts do not split into {count} groups", place("count"), f"{fits} groups"
        )
    elif keep > count:
        report.error("A502", f"{keep} of {count} groups cannot be kept", place("keep"), f"keep at most {count}")
    elif moe.top_k > keep * size:
        message = f"{moe.top_k} experts cannot come from {keep} group{'s' * (keep > 1)} of {size}"
        report.error("A502", message, place("keep"), f"keep at least {-(-moe.top_k // size)}")
    elif groups.score == "top2_sum" and size < 2:
        report.error(
            "A502", "a group of one expert has no two best ones", place("score"), "`score: max`, or fewer groups"
        )
    elif keep == count:
        report.warn("A507", "all groups are kept, so that groups change nothing", place("keep"), "remove `groups`")


def _weights(site: Site, moe: Moe, report: Report) -> None:
    router, place = moe.router, site.place("ffn", "router", "normalize")
    if moe.top_k == 1 and router.normalize and moe.experts > 1:
        message = "the one chosen weight is always 1: the router learns nothing"
        report.warn("A503", message, place, "`normalize: false`")
    if moe.top_k > 1 and router.score == "sigmoid" and not router.normalize and router.scale == 1:
        message = f"the {moe.top_k} weights add up to anything below {moe.top_k}"
        report.warn("A504", message, place, "`normalize: true`, or state a `scale`")
    if router.scale == 0:
        report.error(
            "A209", "with a scale of 0 no expert is heard", site.place("ffn", "router", "scale"), "remove the line"
        )
