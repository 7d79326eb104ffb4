"""What pydantic found wrong with the form of a complete spec, as located diagnostics: one mistake, one diagnostic."""

from __future__ import annotations

from typing import Any

from archspec.diagnostics import Place, listing, nearest

from .grammar import TOP, Shape
from .keys import expected, owner_name
from .meant import rewritten
from .merge import Trace
from .nodes import Node, Report, show_value
from .places import Path


class Translation:
    """One reading of pydantic's errors. `faults` are the paths at fault, known or new, `strangers` unknown keys."""

    def __init__(self, root: Node, report: Report, trace: Trace) -> None:
        self.root, self.report, self.trace = root, report, trace
        self.faults: set[Path] = set()
        self.strangers: set[Path] = set()
        self.missing: dict[Place, tuple[Node, Shape, list[str]]] = {}

    def tell(self, errors: list[Any]) -> None:
        """One diagnostic a mistake: the same line merged into many layers is told once, missing keys of one mapping together."""
        for error in errors:
            node, shape, last, known = self.locate(error["loc"], error["type"] == "extra_forbidden")
            # a norm that is missing inside is the model's: it is told there
            if known or (error["type"] == "missing" and last == "norm" and node is not self.root):
                continue
            if error["type"] == "missing":
                _, _, keys = self.missing.setdefault(node.head, (node, shape, []))
                if last not in keys:
                    keys.append(last)
            elif error["type"] == "extra_forbidden":
                self.report.error(
                    "A101",
                    f"`{last}` is not a key of {_owner(node, shape)}",
                    node.mapping[last].head,
                    _keys(node, shape, last),
                )
            else:
                self.value(error, node, shape)
        for place, (node, shape, keys) in self.missing.items():
            self.lacking(place, node, shape, keys)

    def locate(self, loc: tuple[int | str, ...], strange: bool) -> tuple[Node, Shape, str, bool]:
        """The node a location means, its shape, the last key (a missing or an unknown one), and whether it is reported already.

        pydantic puts the tags of unions into a location; a step that is no key and no index is such a tag.
        """
        node, shape = self.root, TOP
        path: list[str | int] = []
        for at, step in enumerate(loc):
            keys = shape.keys_of(_kind(node))
            if node.bad:
                break
            if isinstance(step, int) and isinstance(node.value, list):
                node, shape = node.value[step], shape.item or shape
            elif step in node.mapping and step in keys and not (strange and at == len(loc) - 1):
                node, shape = node.mapping[str(step)], keys[str(step)]
            elif at == len(loc) - 1:
                (self.strangers if strange else self.faults).add((*path, step))
                child = node.mapping.get(str(step))
                return node, shape, str(step), child is not None and child.bad
            else:
                continue
            path.append(step)
        self.faults.add(tuple(path))
        return node, shape, "", node.bad

    def lacking(self, place: Place, node: Node, shape: Shape, keys: list[str]) -> None:
        before_now = self.trace.afresh.get(node.place)
        above = self.trace.over_none.get(node.place)
        names = listing(keys)
        if above is not None:
            message = f"this says something of `{shape.name}`, which is `none` above (line {above.line})"
            self.report.error("A703", message, place, f"state it whole: {names} {_are(keys)} missing")
        elif before_now is not None:
            before, now = before_now
            message = (
                f"`kind: {now}` starts afresh: nothing of `{before}` is inherited, and {names} {_are(keys)} missing"
            )
            self.report.error("A702", message, place, f"state {names} here")
        elif node is self.root:
            for key in keys:
                self.report.error(
                    "A102", f"the spec does not say its `{key}`", place._replace(line=0), _EXAMPLES.get(key)
                )
        else:
            self.report.error("A102", f"{_owner(node, shape)} lacks {names}", place, _EXAMPLES.get(keys[0]))

    def value(self, error: Any, node: Node, shape: Shape) -> None:
        kind, context, shown = error["type"], error.get("ctx", {}), show_value(node.value)
        name = _written(node) or shape.name
        if kind == "union_tag_not_found":
            self.kindless(node, shape)
        elif shape.name == "archspec":
            self.report.error(
                "A109",
                f"this is version {node.value} of the language; archspec reads 1",
                node.place,
                "write `archspec: 1`",
            )
        elif kind in ("greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number"):
            message = f"`{name}` is {node.value}; it must be {_bound(kind, context)}"
            self.report.error("A104", message, node.place, rewritten(node, shape))
        elif kind in ("too_short", "string_too_short"):
            if node.value:
                return  # its items are at fault, and told
            self.report.error("A104", f"`{name}` is empty", node.place, "write at least one")
        elif kind == "string_pattern_mismatch":
            message = f"{show_value(node.value)} is no name"
            self.report.error(
                "A104", message, node.place, "lower-case letters, digits, `.`, `_` and `-`, a letter or digit first"
            )
        elif kind == "value_error":
            self.report.error(
                "A108", f"{shown} is not a scale", node.place, str(context["error"]).removeprefix("a scale is ")
            )
        elif kind in ("literal_error", "union_tag_invalid"):
            legal = shape.kinds or shape.words
            guess = nearest(str(node.value), legal)
            remedy = f"did you mean `{guess}`?" if guess else f"legal: {', '.join(legal)}"
            self.report.error("A105", f"{shown} is not a value of `{name}`", node.place, remedy)
        else:
            self.report.error(
                "A103", f"`{name}` must be {expected(shape)}, not {shown}", node.place, rewritten(node, shape)
            )

    def kindless(self, node: Node, shape: Shape) -> None:
        above = self.trace.over_none.get(node.place)
        kinds = ", ".join(shape.kinds)
        if above is not None:
            message = f"this says something of a `{shape.name}` that is `none` above (line {above.line})"
            self.report.error("A703", message, node.head, f"add `kind:`, one of {kinds}")
        elif shape.name == "window":
            remedy = "for a sliding window write its size alone: `window: 4096`"
            self.report.error("A107", "`window` does not say its kind", node.head, remedy)
        else:
            self.report.error(
                "A107", f"`{shape.name}` does not say its kind", node.head, f"add `kind:`, one of {kinds}"
            )


def _are(keys: list[str]) -> str:
    return "is" if len(keys) == 1 else "are"


def _written(node: Node) -> str:
    """The key as the author wrote it: a derived value bears the name of what it follows from."""
    key = node.key
    return "" if key is None else key.text[key.column - 1 : key.column - 1 + key.length]


def _kind(node: Node) -> str | None:
    kind = node.mapping.get("kind")
    return kind.value if kind is not None and isinstance(kind.value, str) else None


def _owner(node: Node, shape: Shape) -> str:
    return owner_name(shape, _kind(node) or shape.default_kind)


def _keys(node: Node, shape: Shape, key: str) -> str:
    kind = _kind(node) or shape.default_kind
    legal = shape.keys_of(kind)
    others = [other for other in shape.kinds if key in shape.keys_of(other)]
    guess = nearest(key, [name for name in legal if name not in node.mapping])
    hint = f"it is a key of {listing(others)}; " if others else f"did you mean `{guess}`? " if guess else ""
    return f"{hint}its keys: {', '.join(legal)}"


def _bound(kind: str, context: dict[str, Any]) -> str:
    if kind == "finite_number":
        return "finite"
    words = {"gt": "greater than", "ge": "at least", "lt": "less than", "le": "at most"}
    return " and ".join(f"{words[key]} {context[key]:g}" for key in words if key in context)


_EXAMPLES = {
    "archspec": "`archspec: 1`, the version of the language",
    "name": "a name is never inherited: `name: my-model`",
    "vocab_size": "for example `vocab_size: 50257`",
    "d_model": "for example `d_model: 768`",
    "norm": "for example `norm: layernorm`, or `norm: {kind: rmsnorm, eps: 1e-6}`",
    "head": "for example `head: {tied: true}`, or `head: none`",
    "tied": "`tied: true` uses the token table for the logits, `tied: false` a matrix of its own",
    "layers": "for example `layers: 12`",
    "heads": "for example `heads: 12`",
    "width": "for example `width: 3072`, or `width: {ratio: 4}`",
    "activation": "for example `activation: gelu`",
    "over": "`over: head`: one weight for all heads; `each_head`: a weight per head; `vector`: the whole projection",
    "source": "say where the totals come from",
}
