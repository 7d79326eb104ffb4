"""Derived values: what follows from what was written. They stand where the value they follow from was written.

Nothing here reports: where a value does not follow (11 heads of 768 channels) it is left out, and the checks say why.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import NamedTuple

from archspec.language.base import ratio_value

from .expand import at_site
from .nodes import Mapping, Node, kind_of

_BLOCK_NORMS = {"attention": ("v_norm", "head_norm", "out_norm"), "ffn": ("mid_norm", "expert_norm")}


class _Sizes(NamedTuple):
    """What values inside a layer follow from."""

    width: int | None  # d_model
    context: int | None


def derive(root: Node) -> Node:
    """The spec with every derived value in it."""
    entries = dict(root.mapping)
    sizes, norm = _Sizes(root.whole("d_model"), root.whole("context_length")), entries.get("norm")
    stacks = [name for name in ("encoder", "decoder") if name in entries]
    for name in stacks:
        stack = dict(entries[name].mapping)
        if "layers" in stack:
            stack["layers"] = _layers(stack["layers"], name, sizes)
        entries[name] = entries[name].with_value(stack)
    entries = _embedding(entries, norm, len(stacks) == 2, root)
    if "head" in entries:
        entries["head"] = _head(entries["head"], norm)
    return root.with_value(entries)


def _embedding(entries: Mapping, norm: Node | None, shared: bool, root: Node) -> Mapping:
    embedding = entries.get("embedding", root.derived({}))
    if not isinstance(embedding.value, dict):
        return entries
    own = dict(embedding.value)
    if "norm" in own:
        _put(own, "norm", at_site(norm, own["norm"]))
    if shared and "share" not in own:
        own["share"] = embedding.derived("tokens")
    return {**entries, "embedding": embedding.with_value(own)}


def _head(head: Node, norm: Node | None) -> Node:
    transform = head.get("transform")
    if transform is None or not isinstance(transform.value, dict):
        return head
    own = dict(transform.value)
    if "norm" in own or kind_of(head) != "classifier":
        _put(own, "norm", at_site(norm, own.get("norm")))
    return head.with_value({**head.mapping, "transform": transform.with_value(own)})


def _put(mapping: Mapping, key: str, node: Node | None) -> None:
    if node is not None:
        mapping[key] = node


# -------------------------------------------------------------------------------------------------------------- layers


def _layers(layers: Node, stack: str, sizes: _Sizes) -> Node:
    if not isinstance(layers.value, list):
        return layers
    return layers.with_value([_entry(entry, stack, sizes) for entry in layers.value])


def _entry(entry: Node, stack: str, sizes: _Sizes) -> Node:
    if not isinstance(entry.value, dict):
        return entry
    own = dict(entry.value)
    if "layers" in own:
        return entry.with_value({**own, "layers": _layers(own["layers"], stack, sizes)})
    norm, placement = own.get("norm"), own.get("placement")
    for name in ("attention", "cross_attention", "ffn"):
        sublayer = own.get(name)
        if sublayer is None or not isinstance(sublayer.value, dict):
            continue
        fields = dict(sublayer.value)
        if "placement" not in fields:
            fields["placement"] = placement or sublayer.derived("pre")
        if "branch_norm" in fields:
            _put(fields, "branch_norm", at_site(norm, fields["branch_norm"]))
        if name == "ffn":
            _ffn(fields, norm, sizes.width)
        elif kind_of(sublayer) == "mla":
            _latent(fields, norm, sizes)
        else:
            _attention(fields, sublayer, norm, sizes)
            if name == "attention" and "mask" not in fields:
                fields["mask"] = sublayer.derived("causal" if stack == "decoder" else "bidirectional")
        own[name] = sublayer.with_value(fields)
    return entry.with_value(own)


def _attention(fields: Mapping, at: Node, norm: Node | None, sizes: _Sizes) -> None:
    """heads → kv_heads, head_dim → v_head_dim and the rotated channels; the norms inside."""
    heads = at.whole("heads")
    if heads is not None:
        fields.setdefault("kv_heads", fields["heads"])
        if "head_dim" not in fields and sizes.width is not None and sizes.width % heads == 0:
            fields["head_dim"] = fields["heads"].derived(sizes.width // heads)
    if "head_dim" in fields:
        fields.setdefault("v_head_dim", fields["head_dim"])
    qk_norm = fields.get("qk_norm")
    if qk_norm is not None and isinstance(qk_norm.value, dict):
        inner = dict(qk_norm.value)
        _put(inner, "norm", at_site(norm, inner.get("norm")))
        fields["qk_norm"] = qk_norm.with_value(inner)
    for site in _BLOCK_NORMS["attention"]:
        if site in fields:
            _put(fields, site, at_site(norm, fields[site]))
    position = fields.get("position")
    if position is not None:
        fields["position"] = _position(position, fields.get("head_dim"), norm, sizes)


def _position(position: Node, head_dim: Node | None, norm: Node | None, sizes: _Sizes) -> Node:
    kind = kind_of(position)
    own = dict(position.mapping) or {"kind": position.derived(position.value)}
    if kind == "rope":
        if "dim" not in own and head_dim is not None:
            own["dim"] = position.derived(head_dim.value)
        if "scaling" in own:
            own["scaling"] = _scaling(own["scaling"], sizes.context)
    elif kind == "disentangled" and "norm" in own:
        _put(own, "norm", at_site(norm, own["norm"]))
    else:
        return position
    return position.with_value(own)


def _scaling(scaling: Node, context: int | None) -> Node:
    """longrope: how many times longer the context has become."""
    original = scaling.whole("original_context")
    if kind_of(scaling) != "longrope" or "factor" in scaling.mapping or original is None or context is None:
        return scaling
    return scaling.with_value({**scaling.mapping, "factor": scaling.derived(context / original)})


def _latent(fields: Mapping, norm: Node | None, sizes: _Sizes) -> None:
    _put(fields, "latent_norm", at_site(norm, fields.get("latent_norm")))
    position, turned = fields.get("position"), fields.get("qk_rope_head_dim")
    if position is not None:
        fields["position"] = _position(position, turned, norm, sizes)


def _ffn(fields: Mapping, norm: Node | None, width: int | None) -> None:
    for site in _BLOCK_NORMS["ffn"]:
        if site in fields:
            _put(fields, site, at_site(norm, fields[site]))
    if "width" in fields:
        fields["width"] = _width(fields["width"], width)
    latent = fields.get("latent")
    if latent is not None and "norm" in latent.mapping:
        parts = dict(latent.mapping)
        _put(parts, "norm", at_site(norm, parts["norm"]))
        fields["latent"] = latent.with_value(parts)
    clamp = fields["expert"].get("clamp") if "expert" in fields else None
    for part in ("expert", "shared"):
        inner = fields.get(part)
        if inner is not None and isinstance(inner.value, dict):
            deeper = dict(inner.value)
            if part == "shared" and clamp is not None:
                deeper.setdefault("clamp", clamp)
            _ffn(deeper, norm, width)
            fields[part] = inner.with_value(deeper)


def _width(node: Node, width: int | None) -> Node:
    ratio, multiple = node.get("ratio"), node.get("multiple_of")
    if width is None or ratio is None or not set(node.mapping) <= {"ratio", "multiple_of"}:
        return node
    if multiple is not None and node.whole("multiple_of") is None:
        return node
    value = ratio.value
    exact = ratio_value(value)
    if exact is None:
        return node
    spread = 0 if isinstance(value, str) else _LAST_DIGIT
    size, whole = rounded_width(exact, width, node.whole("multiple_of") or 1, spread)
    return node.derived(size) if whole or multiple is not None else node


#: By which share a number may miss what it was meant to be: 2.6666666666666665 is 8/3. A quotient is exact.
_LAST_DIGIT = Fraction(1, 10**9)


def rounded_width(ratio: Fraction, width: int, multiple: int, spread: Fraction | int = 0) -> tuple[int, bool]:
    """ceil(ratio · width / multiple) · multiple, and whether it was whole, which it is within a share of `spread`."""
    exact = ratio * width / multiple
    near = round(exact)
    whole = abs(exact - near) <= spread * max(Fraction(1), exact)
    return (near if whole else ceil(exact)) * multiple, whole
