"""The families: a module each, found by being here.

A module says `FAMILY = Family(...)`, or `FAMILIES = (...)` where a few share most of their tables. To add one is to add a module.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from ..maps import Family

#: Meant where a checkpoint or a model fits several.
_FIRST = ("archspec", "gpt2", "bert", "roberta", "llama")


def _found() -> tuple[Family, ...]:
    families: list[Family] = []
    for module in sorted(m.name for m in iter_modules(__path__)):
        tables = vars(import_module(f"{__name__}.{module}"))
        families += tables.get("FAMILIES", (tables["FAMILY"],) if "FAMILY" in tables else ())
    rank = {name: i for i, name in enumerate(_FIRST)}
    return tuple(sorted(families, key=lambda family: rank.get(family.name, len(rank))))


FAMILIES = _found()
