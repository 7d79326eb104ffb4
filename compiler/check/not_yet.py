"""What the language can say and this version does not compile. To compile one of these, remove its row."""

from __future__ import annotations

from archspec.language.base import Node

from ..nodes import Report
from .layers import Site

#: The field of a layer's sublayer, the values that are not compiled (None: any but the absence), and what to call it.
NOT_YET: tuple[tuple[tuple[str, ...], tuple[object, ...] | None, str], ...] = (
    (("position", "kind"), ("disentangled",), "disentangled attention"),
)


def check_not_yet(site: Site, report: Report) -> None:
    """Report each construct of a layer that is legal and not compiled yet."""
    for name in ("attention", "cross_attention", "ffn"):
        sublayer = getattr(site.layer, name)
        for path, values, what in NOT_YET if sublayer is not None else ():
            value = _at(sublayer, path)
            if value is not None and (values is None or value in values):
                message = f"not yet: {what}"
                remedy = "legal in the language; this version of archspec does not compile it"
                report.error("A900", message, site.place(name, *path), remedy)


def _at(value: object, path: tuple[str, ...]) -> object:
    for step in path:
        value = value.__dict__.get(step) if isinstance(value, Node) else None
    return value
