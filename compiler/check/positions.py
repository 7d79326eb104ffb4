"""Positions of one layer's attention: that there is one, that rope's pairs and its scaling come out, that buckets can be spread."""

from __future__ import annotations

from archspec.language.attention import LatentAttention, SoftmaxAttention
from archspec.language.model import Spec
from archspec.language.positions import (
    Disentangled,
    DynamicScaling,
    LearnedPosition,
    LinearScaling,
    LongRopeScaling,
    NtkScaling,
    ProportionalScaling,
    RampScaling,
    RelativeBuckets,
    Rope,
    RopeScaling,
    SinusoidalPosition,
    YarnScaling,
)

from ..nodes import Report
from ..places import Places
from .layers import Site, layer_sites


def check_position(site: Site, attention: SoftmaxAttention | LatentAttention, report: Report) -> None:
    """Report on the position of a layer's self-attention, and on the temperature that follows it."""
    added = isinstance(site.spec.embedding.position, LearnedPosition | SinusoidalPosition)
    if isinstance(attention, SoftmaxAttention) and not added and not _said(site):
        message = "nothing tells this model the order of its tokens"
        report.error("A301", message, site.place("attention"), "add `position: rope`, or `position: none` to mean it")
    position = attention.position
    if isinstance(position, Rope):
        if added:
            kind = site.spec.embedding.position.kind
            message = f"position enters twice: `{kind}` in the embedding and `rope` here"
            report.warn("A303", message, site.place("attention", "position"), "remove one of them")
        _rope(site, attention, position, report)
    elif isinstance(position, RelativeBuckets | Disentangled):
        _buckets(site, position, report)
    _temperature(site, attention, report)


def _said(site: Site) -> bool:
    """Whether this layer says its position, or an embedding says one that is in error already."""
    embedded = site.places.node("embedding", "position")
    return site.written("attention", "position") is not None or (embedded is not None and embedded.bad)


def _rope(site: Site, attention: SoftmaxAttention | LatentAttention, rope: Rope, report: Report) -> None:
    latent = isinstance(attention, LatentAttention)
    width = attention.qk_rope_head_dim if isinstance(attention, LatentAttention) else attention.head_dim
    if width is None or rope.dim is None:
        return
    if rope.dim > width:
        message = f"rope turns {rope.dim} channels of a head of {width}"
        report.error("A205", message, site.place("attention", "position", "dim"), f"dim at most {width}")
    elif rope.dim % 2:
        stated = rope.dim != width
        key = "dim" if stated else "qk_rope_head_dim" if latent else "head_dim"
        remedy = (
            f"{rope.dim - 1} or {rope.dim + 1}" if stated or latent else f"an even head_dim, or `dim: {rope.dim - 1}`"
        )
        place = site.place("attention", key) if latent and not stated else site.place("attention", "position", "dim")
        report.error("A204", f"rope turns pairs of channels; {key} {rope.dim} is odd", place, remedy)
    elif rope.scaling is not None:
        _form(site, rope, rope.dim, rope.scaling, report)
        _reach(site, rope.scaling, report)


# ------------------------------------------------------------------------------------------------------------- scaling


def _form(site: Site, rope: Rope, dim: int, scaling: RopeScaling, report: Report) -> None:
    """What a scaling's own numbers, or its rope's, do not allow."""
    at = ("attention", "position", "scaling")
    if isinstance(scaling, RampScaling) and scaling.low_frequency > scaling.high_frequency:
        message = f"the ramp runs backwards, from {scaling.low_frequency:g} to {scaling.high_frequency:g} turns"
        report.error("A309", message, site.place(*at, "low_frequency"), "swap `low_frequency` and `high_frequency`")
    if isinstance(scaling, YarnScaling) and scaling.beta_slow > scaling.beta_fast:
        message = f"the ramp runs backwards, from {scaling.beta_slow:g} to {scaling.beta_fast:g} turns"
        report.error("A309", message, site.place(*at, "beta_slow"), "swap `beta_fast` and `beta_slow`")
    if isinstance(scaling, LongRopeScaling):
        for name, divisors in (("short", scaling.short), ("long", scaling.long)):
            if len(divisors) != dim // 2:
                message = f"{len(divisors)} divisors for {dim // 2} frequencies"
                report.error(
                    "A310", message, site.place(*at, name), f"give {dim // 2}, one for each pair of {dim} channels"
                )
    if (why := _degenerate(rope, dim, scaling)) is not None:
        report.error("A315", why, site.place(*at), "remove the scaling")


def _degenerate(rope: Rope, dim: int, scaling: RopeScaling) -> str | None:
    match scaling:
        case NtkScaling() | DynamicScaling() if dim <= 2:
            return f"`{scaling.kind}` stretches the frequencies against each other, and one pair has a single one"
        case YarnScaling() if rope.theta == 1:
            return "with `theta: 1` all frequencies are equal: there is none to begin a ramp at"
        case ProportionalScaling() if int(scaling.share * dim) < 2:
            return f"{scaling.share:g} of {dim} channels is less than a pair: nothing turns"
        case LongRopeScaling() if scaling.original_context == 1:
            return "an original context of one token has no length to compare with"
    return None


#: These scalings turn every position otherwise, the first ones too.
_TRAINED = "or nothing: weights that were trained with it want it as it is"


def _reach(site: Site, scaling: RopeScaling, report: Report) -> None:
    """Whether the scaling is of use, and right, for the context of the model."""
    context, place = site.spec.context_length, site.place("attention", "position", "scaling")
    if context is None or isinstance(scaling, LinearScaling | NtkScaling | ProportionalScaling):
        return
    begins, factor = scaling.original_context, scaling.factor or context / scaling.original_context
    # a dynamic scaling starts after its original context: for runs beyond the context that the spec states
    if begins >= context and factor > 1 and not (isinstance(scaling, DynamicScaling) and begins == context):
        message = f"scaling is for contexts past {begins}, and this model's is {context}"
        otherwise = (
            "or remove the scaling, which does nothing here" if isinstance(scaling, DynamicScaling) else _TRAINED
        )
        report.warn("A307", message, place, f"`context_length: {round(begins * factor)}`, {otherwise}")
    elif isinstance(scaling, YarnScaling) and begins * factor != context:
        message = f"{begins} × {factor:g} = {begins * factor:.10g}, and the context is {context}"
        remedy = f"`factor: {context / begins:.10g}`, or `context_length: {round(begins * factor)}`, {_TRAINED}"
        report.warn("A308", message, site.place("attention", "position", "scaling", "factor"), remedy)


# ------------------------------------------------------------------------------------------------------------- buckets


def _buckets(site: Site, position: RelativeBuckets | Disentangled, report: Report) -> None:
    """Whether distances can be spread over the buckets: some have one each, and the last begins behind those."""
    at, buckets, far = ("attention", "position"), position.buckets, position.max_distance
    if far is None:
        return
    sides = 2 if isinstance(position, RelativeBuckets) and site.stack == "encoder" else 1
    if buckets % sides:
        message = f"an encoder's buckets are half for each side, and {buckets} is odd"
        report.error("A314", message, site.place(*at, "buckets"), f"{buckets - 1} or {buckets + 1}")
        return
    near = buckets // sides // 2  # so many distances have a bucket of their own
    least = 1 if isinstance(position, RelativeBuckets) else 2  # log-spaced ones begin with the last of those
    if near < least:
        few = f"with {buckets} bucket{'s' * (buckets > 1)} no two distances are told apart"
        if near:
            few = f"{buckets} buckets leave none to share between farther distances"
        report.error("A314", few, site.place(*at, "buckets"), f"at least {2 * sides * least}")
    elif far <= near + least - 1:
        message = f"distances up to {near} have buckets of their own, and the last begins at {far}"
        report.error(
            "A314", message, site.place(*at, "max_distance"), f"more than {near + least - 1}, or fewer buckets"
        )


def check_tables(spec: Spec, places: Places, report: Report) -> None:
    """Report on relative tables that layers of different shapes would share."""
    first: dict[tuple[str, str], tuple[object, str]] = {}
    for site in layer_sites(spec, places):
        attention = site.layer.attention
        if not isinstance(attention, SoftmaxAttention):
            continue
        match position := attention.position:
            case RelativeBuckets(table="per_stack"):
                shape: object = attention.heads, position.buckets
                said, remedy = f"{attention.heads} heads and {position.buckets} buckets", "`table: per_layer`"
            case Disentangled():
                shape, remedy = (position.buckets, position.norm), "the same buckets and norm in all layers"
                said = f"{position.buckets} buckets and {position.norm.kind if position.norm else 'no norm'}"
            case _:
                continue
        before, served = first.setdefault((site.stack, position.kind), (shape, said))
        if before != shape:
            other = " of other values" if served == said else ""
            message = f"one table of {served} cannot serve {said}{other}"
            report.error("A312", message, site.place("attention", "position"), remedy)


def _temperature(site: Site, attention: SoftmaxAttention | LatentAttention, report: Report) -> None:
    temperature, context = attention.temperature, site.spec.context_length
    if temperature is None or context is None or temperature.growth == "power":
        return
    first = temperature.period - temperature.offset + 1
    if first > context:
        message = f"the temperature first changes after {first} tokens, past the context of {context}"
        report.warn("A316", message, site.place("attention", "temperature"), "remove it, or a shorter `period`")
