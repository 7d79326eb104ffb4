"""The totals a spec expects, against the totals counted."""

from __future__ import annotations

from collections.abc import Iterator

from archspec.diagnostics import Diagnostic
from archspec.language.attention import SoftmaxAttention
from archspec.language.model import LmHead, Spec

from ..places import Places
from .layers import layer_sites


def expect_missed(spec: Spec, places: Places, counted: int, field: str = "parameters") -> Diagnostic | None:
    """A801 where `expect.<field>` is stated and is not what was counted, with the likeliest component; else None."""
    expected = None if spec.expect is None else getattr(spec.expect, field)
    if expected is None or expected == counted:
        return None
    difference = counted - expected
    side = f"{abs(difference):,} {'more' if difference > 0 else 'fewer'}"
    likely = _likeliest(spec, places, abs(difference))
    message = f"{expected:,} {field.replace('_', ' ')} expected, {counted:,} counted: {side}{likely and f', {likely}'}"
    assert spec.expect is not None
    return Diagnostic("A801", message, places("expect", field), f"the total is from: {spec.expect.source}")


def _likeliest(spec: Spec, places: Places, difference: int) -> str:
    for name, size in _components(spec, places):
        if size == difference:
            return name
    if difference % spec.d_model == 0:
        count = difference // spec.d_model
        return "one vector of d_model" if count == 1 else f"{count:,} vectors of d_model"
    return ""


def _components(spec: Spec, places: Places) -> Iterator[tuple[str, int]]:
    """What is most often counted, or not counted, by mistake."""
    width, projection = spec.d_model, spec.embedding.projection
    table = spec.vocab_size * (projection.dim if projection else width)
    yield "a token table: is the head tied?", table
    yield "a bias per vocabulary entry: the head's `bias`", spec.vocab_size
    if spec.context_length is not None:
        yield "a position table", spec.context_length * width
    if spec.embedding.token_types:
        yield "the token types", spec.embedding.token_types * width
    yield "a pooler", width * width + width
    if isinstance(spec.head, LmHead) and spec.head.transform is not None:
        yield "the head's transform", width * width + width
    sites = list(layer_sites(spec, places))
    biases = [
        (a.heads * a.head_dim, 2 * (a.kv_heads or a.heads) * a.head_dim)
        for a in (site.layer.attention for site in sites)
        if isinstance(a, SoftmaxAttention) and a.head_dim is not None
    ]
    if len(sites) == len(biases) == 1:
        depth, (query, keys) = sites[0].depth, biases[0]
        yield "the biases of q, k and v", depth * (query + keys)
        yield "the biases of q, k, v and o", depth * (query + keys + width)
        yield "the attention's biases of o", depth * width
        yield "one norm weight a layer", depth * width
        yield "two norm weights a layer", 2 * depth * width
