"""A model as Hugging Face describes it: the family whose form it has, and its config.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from archspec.errors import WeightsError
from archspec.ops.model import Model

from .agree import must_say
from .families import all_families, families
from .maps import Family, plan


def family_named(origin: Mapping[str, Any]) -> str | None:
    """The family that a checkpoint's config or metadata says it is of."""
    kind = origin.get("model_type") or origin.get("general.architecture")
    return next((f.name for f in families() if kind in f.types), None) if isinstance(kind, str) else None


def config_text(config: Mapping[str, Any], special: Mapping[str, Any], dtype: str) -> str:
    """The text of a config.json; what the model itself says of a special token goes before `special`, unless it is nothing."""
    said = {key: value for key, value in config.items() if value is not None or key not in special}
    return json.dumps({**special, **said, "dtype": dtype}, indent=2, sort_keys=True) + "\n"


def form_of(model: Model, context_length: int | None, prefer: str | None) -> tuple[Family, dict[str, Any]]:
    """The first family whose form the model has, `prefer` before all, and the model's config.json in it.

    Raises `WeightsError` where there is none, saying why.
    """
    reasons: list[str] = []
    for form in _preferred(prefer):
        if form.write is None:
            continue
        try:
            config = form.write(model, context_length)
            must_say(form, config, model)
        except WeightsError as error:
            reasons.append(error.message)
            continue
        if nameless := plan(form, model).nameless:
            reasons.append(f"the {form.name} form has no place for {', '.join(nameless)}")
            continue
        return form, config
    # the one that is preferred, or says the model but for the fewest figures; what another cannot say at all helps nobody
    said = [r for r in reasons if r.startswith(model.name)]
    nearest = sorted(said, key=lambda r: (f"the {prefer} form" not in r, r.count("\n")))[:1]
    raise WeightsError(
        "\n".join([_unwritten(model, prefer), *(["The nearest that can be:", *nearest] if nearest else [])])
    )


def _preferred(name: str | None) -> Iterator[Family]:
    """All families in order, the one of this name before all."""
    first = [form for form in families() if form.name == name] if name else []
    yield from first
    yield from (form for form in families() if form not in first)


def _unwritten(model: Model, family: str | None) -> str:
    """Why there is no writer: the family of the weights, or the one that the model is called after, is only read."""
    readers = [f for f in all_families() if f.format == "huggingface" and f.read and not f.write]
    called = "".join(filter(str.isalnum, model.name.lower()))
    alike = [f for f in readers if called.startswith(f.name.replace("_", "")) and not plan(f, model).nameless]
    found = [f.name for f in readers if f.name == family] or sorted((f.name for f in alike), key=len)
    if found:
        return f"{found[-1]} checkpoints can be read and not written (docs/families.md, last column)."
    return "no family whose checkpoints can be written has this form (docs/families.md, last column)."
