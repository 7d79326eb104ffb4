"""The families: a module each, found by being here.

A module says `FAMILY = Family(...)`, or `FAMILIES = (...)` where a few share most of their tables. To add one is to add a module.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from ..maps import Family

#: Modules of those that are meant where a checkpoint or a model fits several.
_FIRST = ("archspec", "gpt2", "bert", "roberta", "llama")


def families() -> Iterator[Family]:
    """All of them in order, each module imported in its turn: whoever finds what it looks for imports no more."""
    rank = {name: i for i, name in enumerate(_FIRST)}
    names = sorted(module.name for module in iter_modules(__path__))
    for name in sorted(names, key=lambda name: rank.get(name, len(rank))):
        tables = vars(import_module(f"{__name__}.{name}"))
        yield from tables.get("FAMILIES", (tables["FAMILY"],) if "FAMILY" in tables else ())


@cache
def all_families() -> tuple[Family, ...]:
    """All of them, in order."""
    return tuple(families())
