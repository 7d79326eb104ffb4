"""What may be written at each place of a spec file, read off the language's types.

A file is partial (overrides are merged before anything is complete), so this grammar says which keys, kinds and words are
legal, never which are required. It adds what exists only before merging: `extends`, `block`, and block keys in a stack or a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel

from archspec.language.base import Absent
from archspec.language.model import Layer, Spec, Stack

#: Whose keys stand in a mapping: a type of the language, or a place that only a file has.
Owner: TypeAlias = "type[BaseModel] | Literal['top', 'stack', 'block', 'entry']"

#: Where `kind` may be left out, and what it then is.
DEFAULT_KIND = {
    "attention": "softmax",
    "cross_attention": "softmax",
    "residual": "add",
    "head": "lm",
    "window": "sliding",
}

#: What a file may take away with `none` at its top, besides the stacks and `block`: it is then as if it had not been written.
_REMOVABLE = ("about", "context_length", "dropout", "expect")

BLOCK_KEYS = tuple(name for name in Layer.model_fields if name not in ("repeat", "weights"))


class Shape(NamedTuple):
    """What may stand at one place.

    `owners` are the mappings by kind (the kind is "" where there is only one), `words` the legal words, `types` the other
    scalars, `item` what a list holds. `removable`: `none` takes it away.
    """

    name: str
    owners: Mapping[str, Owner]
    words: tuple[str, ...] = ()
    types: tuple[type, ...] = ()
    item: Shape | None = None
    removable: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of the kinds; empty where there is no choice."""
        return tuple(kind for kind in self.owners if kind)

    @property
    def default_kind(self) -> str | None:
        """The kind that is meant where none is written."""
        return DEFAULT_KIND.get(self.name)

    def joined(self, other: Shape) -> Shape:
        """What may stand where either of two shapes is meant."""
        words = (*self.words, *(word for word in other.words if word not in self.words))
        types = (*self.types, *(kind for kind in other.types if kind not in self.types))
        item = self.item.joined(other.item) if self.item and other.item else self.item or other.item
        removable = self.removable or other.removable
        return Shape(self.name, {**self.owners, **other.owners}, words, types, item, removable)

    def keys_of(self, kind: str | None = None) -> dict[str, Shape]:
        """The legal keys of a mapping of this kind; of any kind where it is not known."""
        if kind in self.owners:
            return keys_of(self.owners[kind or ""])
        return _keys_of_any(tuple(self.owners.values()))


@cache
def _keys_of_any(owners: tuple[Owner, ...]) -> dict[str, Shape]:
    """The keys that are legal in one of several kinds; what may stand there is what may in any of them."""
    keys: dict[str, Shape] = {}
    for owner in owners:
        for name, shape in keys_of(owner).items():
            known = keys.get(name)
            keys[name] = shape if known is None or known == shape else known.joined(shape)
    return keys


@cache
def keys_of(owner: Owner) -> dict[str, Shape]:
    """The legal keys of one mapping, each with what may stand there."""
    if owner == "top":
        own = {
            name: shape._replace(removable=True) if name in _REMOVABLE else shape
            for name, shape in keys_of(Spec).items()
        }
        stacks = {name: Shape(name, {"": "stack"}, removable=True) for name in ("encoder", "decoder")}
        before = {name: own[name] for name in ("archspec", "name")}
        return {
            **before,
            "extends": Shape("extends", {}, types=(str,)),
            **own,
            "block": Shape("block", {"": "block"}, removable=True),
            **stacks,
        }
    if owner == "block":
        layer = keys_of(Layer)
        return {key: layer[key] for key in BLOCK_KEYS}
    layers = Shape("layers", {}, types=(int,), item=Shape("entry", {"": "entry"}))
    if owner == "stack":
        return {"layers": layers, "final_norm": keys_of(Stack)["final_norm"], **keys_of("block")}
    if owner == "entry":
        return {**keys_of(Layer), "layers": layers}
    assert not isinstance(owner, str)
    return {
        name: _shape(name, info.annotation, removable=Absent in info.metadata)
        for name, info in owner.model_fields.items()
    }


def _shape(name: str, annotation: Any, removable: bool = False) -> Shape:
    owners: dict[str, Owner] = {}
    words: list[str] = []
    types: list[type] = []
    item = None
    for leaf in _leaves(annotation):
        if isinstance(leaf, str):
            words.append(leaf)
        elif get_origin(leaf) is tuple:
            item = _shape(name, get_args(leaf)[0]) if name != "layers" else None
        elif leaf is NoneType:
            continue
        elif isinstance(leaf, type) and issubclass(leaf, BaseModel):
            kind = leaf.model_fields.get("kind")
            owners[kind.default if kind else ""] = leaf
        else:
            types.append(leaf if isinstance(leaf, type) else type(leaf))
    if name == "window":
        types.append(int)
    return Shape(name, owners, tuple(words), tuple(types), item, removable)


def _leaves(annotation: Any) -> Iterator[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _leaves(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for member in get_args(annotation):
            yield from _leaves(member)
    elif origin is Literal:
        yield from get_args(annotation)
    else:
        yield annotation


TOP = Shape("spec", {"": "top"})
ENTRY = Shape("entry", {"": "entry"})
