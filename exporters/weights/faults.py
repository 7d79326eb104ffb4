"""What does not fit between a checkpoint and a model, collected and told at once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from archspec.errors import WeightsError
from archspec.ops.model import Model

from .source import Weights
from .transforms import Shape


@dataclass
class Faults:
    """Every fault, by kind."""

    #: their name -> our paths
    missing: dict[str, tuple[str, ...]] = field(default_factory=dict)
    extra: list[str] = field(default_factory=list)
    #: their name -> the file's shape, the shape that the model needs, our paths
    misshapen: dict[str, tuple[Shape, Shape, tuple[str, ...]]] = field(default_factory=dict)
    #: their name -> a stored type that is no weight
    untyped: dict[str, str] = field(default_factory=dict)
    #: (name, second name) of one tensor that hold different values
    untied: list[tuple[str, str]] = field(default_factory=list)
    #: our paths that the family has no name for
    nameless: list[str] = field(default_factory=list)
    #: sentences about figures in which config or metadata and spec differ
    disagreeing: list[str] = field(default_factory=list)

    def lines(self, family: str) -> list[str]:
        """One line a fault; equal faults of many layers on one line."""
        return [
            *self.disagreeing,
            *(f"missing: {n}" for n in in_runs(self.missing)),
            *(f"extra: {n}" for n in in_runs(self.extra)),
            *in_runs(
                f"misshapen: {n} is {_shape(has)}, the spec needs {_shape(needs)}"
                for n, (has, needs, _) in self.misshapen.items()
            ),
            *in_runs(f"not floating point: {n} is {dtype}" for n, dtype in self.untyped.items()),
            *(f"one tensor in the spec, two different ones in the file: {a} and {b}" for a, b in self.untied),
            *(f"the {family} form has no place for {n}" for n in in_runs(self.nameless)),
        ]

    def raise_if_any(self, model: Model, source: Weights, family: str) -> None:
        """Raises `WeightsError` with all of them."""
        if lines := self.lines(family):
            message = f"{source.path} does not fit {model.name} (read by the {family} map):"
            raise WeightsError("\n  ".join([message, *lines]), self.remedy(model, source))

    def remedy(self, model: Model, source: Weights) -> str | None:
        """What would most likely put it right."""
        for has, needs, paths in self.misshapen.values():
            rows = {"tokens": "vocab_size", "positions": "context_length"}
            for path in paths:
                key = rows.get(path.split(".")[-2])
                if key and len(has) == 2 and has[0] != needs[0] and has[1:] == needs[1:]:
                    return f"the file's table has {has[0]} rows, the spec's {needs[0]}: compare {key}"
        if any("head.out.weight" in paths for paths in self.missing.values()):
            return "the file has no output matrix of its own: the checkpoint may be tied (head: {tied: true})"
        if self.untied:
            return "if the checkpoint has a head of its own: head: {tied: false}"
        return None


def _shape(shape: Shape) -> str:
    return " × ".join(map(str, shape)) or "a number"


def in_runs(names: Iterable[str]) -> list[str]:
    """Names that differ in their first number only, on one line: `h.{0-11}.ln_1.weight`."""
    groups: dict[tuple[str, str], list[int]] = {}
    for name in names:
        match = re.search(r"(?<=\.)\d+(?=\.)", name)
        if match is None:
            groups[name, ""] = []
        else:
            groups.setdefault((name[: match.start()], name[match.end() :]), []).append(int(match.group()))
    return [f"{before}{_run(numbers)}{after}" for (before, after), numbers in groups.items()]


def _run(numbers: list[int]) -> str:
    if len(numbers) < 2:
        return "".join(map(str, numbers))
    starts = [n for n in sorted(numbers) if n - 1 not in numbers]
    ends = [n for n in sorted(numbers) if n + 1 not in numbers]
    return "{" + ",".join(f"{a}-{b}" if a != b else str(a) for a, b in zip(starts, ends, strict=True)) + "}"
