"""From a merged file to complete layers: norm → block → stack → group → entry, each over the last.

A run of equal layers stays one entry with `repeat`; nothing here grows with depth.
"""

from __future__ import annotations

from typing import NamedTuple

from .grammar import BLOCK_KEYS, ENTRY, TOP, keys_of
from .merge import Trace, merge
from .nodes import Mapping, Node, Report, is_none, kind_of

_BLOCK = keys_of("block")
#: What cross attention does not take from the layer's attention: keys come from the other stack.
_SELF_ONLY = ("position", "window", "mask", "sinks", "temperature")


class Context(NamedTuple):
    """What holds for the whole spec."""

    report: Report
    trace: Trace
    two_stacks: bool


def expand(root: Node, report: Report, trace: Trace) -> Node:
    """The spec with complete entries in its stacks and without `block`."""
    removable = [key for key, shape in TOP.keys_of().items() if shape.removable]
    gone = [key for key in removable if key in root.mapping and root.mapping[key].value == "none"]
    entries = {key: child for key, child in root.mapping.items() if key not in gone}
    block = entries.pop("block", None)
    stacks = [name for name in ("encoder", "decoder") if isinstance((stack := entries.get(name)) and stack.value, dict)]
    if not stacks and not any(name in entries for name in ("encoder", "decoder")):
        remedy = "for example `decoder: {layers: 12, attention: ..., ffn: ...}`"
        report.error("A110", "the spec has neither an encoder nor a decoder", root.place._replace(line=0), remedy)
    context = Context(report, trace, len(stacks) == 2)
    if block is not None and len(stacks) == 1 and not block.bad and not {"encoder", "decoder"} & set(gone):
        message = "`block` is what two stacks share, and there is one"
        report.error("A704", message, block.head, f"move its keys under `{stacks[0]}`")
    for name in stacks:
        entries[name] = _stack(name, entries[name], block, entries.get("norm"), context)
    return root.with_value(entries)


def _over(inherited: Mapping, own: Mapping, context: Context) -> Mapping:
    """Block keys merged key by key. A norm that restates its whole is no idle override, so it is not told."""
    merged = dict(inherited)
    for key in BLOCK_KEYS:
        if key in own:
            trace = context.trace if key != "norm" else None
            base = merged.get(key)
            merged[key] = own[key] if base is None else merge(base, own[key], _BLOCK[key], trace, key)
    return merged


def _stack(name: str, stack: Node, block: Node | None, norm: Node | None, context: Context) -> Node:
    own = stack.mapping
    shared = _over({} if norm is None else {"norm": norm}, block.mapping if block is not None else {}, context)
    inherited = _over(shared, own, context)
    if name == "encoder":
        _refuse_cross(own, context)
        inherited.pop("cross_attention", None)
    complete: Mapping = {}
    if "layers" in own:
        complete["layers"] = _entries(own["layers"], inherited, name, context)
    final_norm = _final_norm(own.get("final_norm"), inherited.get("norm"), complete.get("layers"))
    if final_norm is not None:
        complete["final_norm"] = final_norm
    return stack.with_value(complete)


def _refuse_cross(own: Mapping, context: Context) -> None:
    cross = own.get("cross_attention")
    if cross is not None and not cross.bad:
        message = "an encoder has no other stack to look at"
        context.report.error("A602", message, cross.head, "cross attention is the decoder's")


def _entries(layers: Node, inherited: Mapping, stack: str, context: Context) -> Node:
    value = layers.value
    if isinstance(value, list):
        entries = [_entry(item, inherited, stack, context) for item in value]
        _note_idle(value, context.trace)
        return layers.with_value(entries)
    if layers.bad:
        return layers
    run = {"repeat": layers, **_layer(inherited, stack, layers, context)}
    return layers.with_value([layers.derived(run)])


def _entry(entry: Node, inherited: Mapping, stack: str, context: Context) -> Node:
    if entry.bad or not isinstance(entry.value, dict):
        return entry
    own = entry.mapping
    merged = _over(inherited, own, context)
    run = {key: own[key] for key in own if key not in BLOCK_KEYS}
    if stack == "encoder":
        _refuse_cross(own, context)
        merged.pop("cross_attention", None)
    if "layers" in own:
        return entry.with_value({**run, "layers": _entries(own["layers"], merged, stack, context)})
    return entry.with_value({**run, **_layer(merged, stack, entry, context)})


def _note_idle(entries: list[Node], trace: Trace) -> None:
    """A `none` over nothing is no idle line where a sibling says something else: it makes the contrast plain."""
    written: dict[str, int] = {}
    for entry in entries:
        for path in _paths(entry, ""):
            written[path] = written.get(path, 0) + 1
    for place, (path, _) in list(trace.absent.items()):
        if written.get(path, 0) > 1:
            del trace.absent[place]


def _paths(node: Node, path: str) -> list[str]:
    found = []
    for key, child in node.mapping.items():
        here = f"{path}.{key}" if path else key
        found += [here, *_paths(child, here)]
    if isinstance(layers := node.mapping.get("layers"), Node) and isinstance(layers.value, list):
        for item in layers.value:
            found += _paths(item, path)
    return found


# -------------------------------------------------------------------------------------------------------------- layers


def _layer(block: Mapping, stack: str, at: Node, context: Context) -> Mapping:
    """The complete block keys of one layer; those that were never written are left to their defaults."""
    layer = dict(block)
    cross = layer.pop("cross_attention", None)
    if stack == "decoder" and context.two_stacks:
        empty = all(layer.get(key) is None or is_none(layer[key]) for key in ("attention", "ffn"))  # A406 says so
        made = None if empty and cross is None else _cross(layer.get("attention"), cross, at, context)
        if made is not None:
            layer["cross_attention"] = made
    elif cross is not None and not cross.bad:
        message = "cross attention looks at an encoder, and there is none"
        context.report.error("A602", message, cross.head, "remove the line, or add an `encoder`")
    return layer


def _cross(attention: Node | None, cross: Node | None, at: Node, context: Context) -> Node | None:
    base = None
    if attention is not None and isinstance(attention.value, dict):
        kind = attention.get("kind")
        if kind is None or kind.value == "softmax":
            taken = {key: child for key, child in attention.mapping.items() if key not in _SELF_ONLY}
            base = attention.with_value(taken)
    if base is None and cross is None:
        if attention is None or kind_of(attention) in ("none", "mla"):
            message = "this layer has no softmax attention to take its cross attention from"
            remedy = "state `cross_attention: {heads: ...}`, or `cross_attention: none`"
            context.report.error("A605", message, at.head, remedy)
        return None
    return merge(base, cross, _BLOCK["cross_attention"])


def _final_norm(own: Node | None, norm: Node | None, layers: Node | None) -> Node | None:
    """The stack's norm with what the site says over it; `none` where the last sublayer's output is normed already."""
    if own is not None:
        return at_site(norm, own)
    if _ends_normed(layers):
        assert layers is not None
        return layers.derived("none")
    return norm


def at_site(norm: Node | None, own: Node | None) -> Node | None:
    """A norm site: it starts from the nearest enclosing norm where its kind is the same or not written."""
    if own is None or norm is None:
        return norm if own is None else own
    if own.value == "none":
        return own
    return merge(norm, own, ENTRY.keys_of()["norm"])


def _ends_normed(layers: Node | None) -> bool:
    """Whether the last sublayer of the last layer is post-norm."""
    while layers is not None and isinstance(layers.value, list) and layers.value:
        last = layers.value[-1]
        layers = last.get("layers")
        if layers is None:
            return _placement(last) == "post"
    return False


def _placement(layer: Node) -> object:
    for name in ("ffn", "cross_attention", "attention"):
        sublayer = layer.get(name)
        if sublayer is not None and isinstance(sublayer.value, dict):
            own = sublayer.get("placement") or layer.get("placement")
            return own.value if own is not None else "pre"
    return None
