"""Residuals, placements, parallel sublayers and shared weights; ffn widths; the ends of a stack."""

from __future__ import annotations

import math

from archspec.language.attention import AddResidual, GatedResidual, NoResidual, Residual
from archspec.language.base import ratio_value, scale_names
from archspec.language.ffn import Gated, Mlp, Moe, Ratio
from archspec.language.model import Entry, Group, Layer, Spec

from ..nodes import Report
from ..places import Path, Places
from .layers import Site, value_of


def check_layer(site: Site, report: Report) -> None:
    """Report on how the sublayers of a layer are wired."""
    layer = site.layer
    if layer.attention is None and layer.ffn is None and layer.cross_attention is None:
        report.error("A406", "an empty layer: neither attention nor ffn", site.place(), "give it one, or remove it")
    if layer.parallel is not None:
        _parallel(site, layer, report)
    if isinstance(layer.residual, AddResidual):
        _residual(site, layer.residual, ("residual",), report)
    for name in ("attention", "cross_attention", "ffn"):
        sublayer = getattr(layer, name)
        if sublayer is not None and isinstance(sublayer.residual, AddResidual):
            _residual(site, sublayer.residual, (name, "residual"), report)
        if sublayer is not None and sublayer.branch_norm and sublayer.placement not in ("branch", "sandwich"):
            message = f"`placement: {sublayer.placement}` has no norm at the branch"
            report.error("A409", message, site.place(name, "branch_norm"), "remove it, or `placement: sandwich`")
    _width(site, report)


def _parallel(site: Site, layer: Layer, report: Report) -> None:
    place = site.place("parallel")
    if layer.cross_attention is not None:
        message = "no order is defined for attention, cross attention and ffn in parallel"
        report.error("A402", message, place, "`parallel: none`")
    if layer.attention is None or layer.ffn is None:
        missing = "attention" if layer.attention is None else "ffn"
        report.error("A405", f"nothing is parallel in a layer without {missing}", place, "`parallel: none`")
    if isinstance(layer.residual, GatedResidual):
        message = "parallel sublayers are summed with one x, and a gate is of one sublayer"
        report.error("A409", message, site.place("residual"), "`parallel: none`, or a plain residual")
    for name in ("attention", "ffn"):
        sublayer = layer.attention if name == "attention" else layer.ffn
        if sublayer is not None and sublayer.placement not in ("pre", "sandwich"):
            message = f"parallel sublayers need a norm at their input, and `placement: {sublayer.placement}` has none"
            report.error("A401", message, site.place(name, "placement"), "`placement: pre`, or `parallel: none`")
        if sublayer is not None and sublayer.residual is not None and not _same_skip(sublayer.residual, layer.residual):
            message = "parallel sublayers are summed with one x, and there is one skip connection for them all"
            report.error("A401", message, site.place(name, "residual"), "say the skip in the block's `residual`")


def _same_skip(own: Residual, block: Residual) -> bool:
    if isinstance(own, AddResidual) and isinstance(block, AddResidual):
        return own.skip_scale == block.skip_scale
    return isinstance(own, NoResidual) and isinstance(block, NoResidual)


def _residual(site: Site, residual: AddResidual, path: Path, report: Report) -> None:
    for name in ("branch_scale", "skip_scale"):
        scale = residual.branch_scale if name == "branch_scale" else residual.skip_scale
        if scale == 1.0:
            continue
        place = site.place(*path, name)
        if "head_dim" in scale_names(scale):
            report.error("A207", "there is no head_dim here", place, "d_model, layers or a number")
            continue
        value = value_of(scale, d_model=site.spec.d_model, layers=site.depth)
        if value is None:
            report.error("A209", f"the scale {scale} is not a number", place, "nothing divides by zero")
        elif value == 0 and name == "branch_scale":
            remedy = "`attention: none` or `ffn: none` takes a branch away"
            report.error("A408", "the branch never reaches the sum", place, remedy)


def _width(site: Site, report: Report) -> None:
    ffn = site.layer.ffn
    _clamp(site, report)
    if isinstance(ffn, Mlp | Gated):
        _ratio(site, ffn.width, ("ffn",), report)
    elif isinstance(ffn, Moe):
        _ratio(site, ffn.expert.width, ("ffn", "expert"), report)
        if ffn.shared is not None:
            _ratio(site, ffn.shared.width, ("ffn", "shared"), report)


def _clamp(site: Site, report: Report) -> None:
    ffn = site.layer.ffn
    gated, path = (ffn.expert, ("ffn", "expert")) if isinstance(ffn, Moe) else (ffn, ("ffn",))
    shared = ffn.shared if isinstance(ffn, Moe) else None
    if shared and shared.clamp and not isinstance(gated, Gated):
        message = "a clamp is of a gated ffn, and the shared expert is an mlp as the others are"
        report.error("A511", message, site.place("ffn", "shared", "clamp"), "remove the line")
    if isinstance(gated, Gated) and gated.clamp_at != "gate" and not (gated.clamp or (shared and shared.clamp)):
        report.error("A511", "there is no clamp here", site.place(*path, "clamp_at"), "add `clamp`, or remove the line")


def _ratio(site: Site, width: int | Ratio, path: Path, report: Report) -> None:
    if isinstance(width, int):
        return
    model, ratio = site.spec.d_model, width.ratio
    exact = ratio_value(ratio)
    assert exact is not None  # the language refuses what is none
    value = float(exact * model)
    step = 2 ** max(0, min(6, int(math.log2(value / 8)))) if value >= 8 else 1
    widths = " or ".join(f"`width: {near}`" for near in (math.floor(value), math.ceil(value)) if near)
    shown = ratio if isinstance(ratio, str) else f"{ratio:g}"
    message = f"{shown} × {model} = {value:.10g} is not whole"
    remedy = f"{widths}, or `multiple_of: {step}` to round it up to {math.ceil(value / step) * step}"
    report.error("A506", message, site.place(*path, "width"), remedy)


# -------------------------------------------------------------------------------------------------------------- stacks


def check_stack(spec: Spec, places: Places, report: Report) -> None:
    """Report on the ends of the stacks and on repeats."""
    for name, stack in spec.stacks().items():
        _shared(stack.layers, (name, "layers"), places, report)
        ends = _last_placement(stack.layers)
        if stack.final_norm is None and ends == "pre":
            place = places(name, "final_norm")
            report.warn("A403", "the last residual sum is never normed", place, "remove the line")
        elif stack.final_norm is not None and ends == "post":
            place = places(name, "final_norm")
            report.warn("A404", "post-norm and a final norm: normed twice in a row", place, "remove one of them")


def _shared(entries: tuple[Entry, ...], path: Path, places: Places, report: Report) -> None:
    for index, entry in enumerate(entries):
        if entry.weights == "shared" and entry.repeat == 1:
            message = "nothing to share: the entry is there once"
            report.error("A407", message, places(*path, index, "weights"), "raise `repeat`, or remove the line")
        if isinstance(entry, Group):
            _shared(entry.layers, (*path, index, "layers"), places, report)


def _last_placement(entries: tuple[Entry, ...]) -> str | None:
    """Where the norms of the last sublayer of a stack stand."""
    last = entries[-1]
    if isinstance(last, Group):
        return _last_placement(last.layers)
    sublayer = last.ffn or last.cross_attention or last.attention
    return None if sublayer is None else sublayer.placement
