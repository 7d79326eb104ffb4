"""Frozen values: what `dataclass(frozen=True)` gives, without generating code for each class.

Every operation and every configuration of a word is a record. A dataclass writes and compiles its methods when its module is
imported: a millisecond each, and the sixty of them were a fifth of the time that `archspec count` takes.
"""

from __future__ import annotations

from contextlib import suppress
from inspect import get_annotations
from typing import Any, ClassVar, Self, dataclass_transform


@dataclass_transform(frozen_default=True)
class Record:
    """Fields are the annotations of a class and its bases, in order; defaults stand beside them. Equal fields, equal records."""

    fields: ClassVar[tuple[str, ...]] = ()
    _hash: int

    def __init_subclass__(cls) -> None:
        own = [name for name, kind in get_annotations(cls).items() if not kind.startswith("ClassVar")]
        cls.fields = (*cls.fields, *(name for name in own if name not in cls.fields))

    def __init__(self, *values: Any, **named: Any) -> None:
        mine = self.__dict__
        mine.update(zip(self.fields, values, strict=False), **named)
        once = len(mine) == len(values) + len(named)  # none too many, and none given twice
        for name in self.fields:
            if name not in mine:
                mine[name] = getattr(type(self), name)  # its default, or an AttributeError that names it
        if not once or len(mine) != len(self.fields):
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(self.fields)}")
        with suppress(TypeError, AttributeError):  # what holds a dict has no hash, and is none the worse for it
            mine["_hash"] = hash((type(self), *(mine[name] for name in self.fields)))

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        """Pickled as its fields: a hash of names is another one in another process."""
        return type(self), tuple(getattr(self, name) for name in self.fields)

    def replaced(self, **changes: Any) -> Self:
        """The same record with some fields changed."""
        return type(self)(**{**{name: getattr(self, name) for name in self.fields}, **changes})

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(self) is type(other) and all(getattr(self, n) == getattr(other, n) for n in self.fields)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in self.fields)})"
