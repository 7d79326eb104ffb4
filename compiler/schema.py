"""The grammar of a spec file as JSON Schema (draft 2020-12), for editors: which keys and words are legal, with their meaning."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from archspec.language.model import Spec

from .grammar import Owner, Shape, keys_of

_TYPES = {int: "integer", float: "number", bool: "boolean", str: "string"}
#: The few keys that no override can complete: without them a file is no spec.
_REQUIRED = ("archspec", "name")


def json_schema() -> dict[str, Any]:
    """What may stand in a spec file. Which keys a *complete* spec must have is `archspec check`'s to say, after merging."""
    definitions: dict[str, Any] = {}
    top = _mapping("top", definitions, "")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "archspec",
        **top,
        "required": list(_REQUIRED),
        "$defs": dict(sorted(definitions.items())),
    }


def _mapping(owner: Owner, definitions: dict[str, Any], kind: str) -> dict[str, Any]:
    """The schema of one mapping."""
    properties = {}
    for name, shape in keys_of(owner).items():
        properties[name] = (
            {"const": kind} if name == "kind" and kind else _value(shape, definitions, _field(owner, name))
        )
    about = owner.__doc__ if not isinstance(owner, str) else None
    described = {"description": " ".join(about.split())} if about else {}
    return {**described, "type": "object", "properties": properties, "additionalProperties": False}


def _value(shape: Shape, definitions: dict[str, Any], field: dict[str, Any]) -> dict[str, Any]:
    """The schema of what may stand at one place."""
    choices: list[dict[str, Any]] = []
    words = [*shape.words, *(["none"] if shape.removable else []), *shape.kinds]
    if words:
        choices.append({"enum": list(dict.fromkeys(words))})
    choices += [{"type": t} for t in dict.fromkeys(_TYPES[t] for t in shape.types if t in _TYPES)]
    if shape.item:
        choices.append({"type": "array", "items": _value(shape.item, definitions, {})})
    for kind, owner in shape.owners.items():
        choices.append(_reference(owner, definitions, kind))
    return {**field, **(choices[0] if len(choices) == 1 else {"anyOf": choices})}


def _reference(owner: Owner, definitions: dict[str, Any], kind: str) -> dict[str, Any]:
    name = owner if isinstance(owner, str) else owner.__name__
    if name not in definitions:
        definitions[name] = {}  # a group holds entries: known before it is whole
        definitions[name] = _mapping(owner, definitions, kind)
    return {"$ref": f"#/$defs/{name}"}


def _field(owner: Owner, name: str) -> dict[str, Any]:
    """What a key means, and its default."""
    model: type[BaseModel] | None = Spec if owner == "top" else owner if not isinstance(owner, str) else None
    info = model.model_fields.get(name) if model else None
    if info is None:
        return {}
    described = {"description": info.description} if info.description else {}
    plain = isinstance(info.default, str | int | float | bool)
    return {**described, "default": info.default} if plain else described
