"""What does not fit between a checkpoint and a model, collected and told at once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from archspec.errors import WeightsError
from archspec.ops.model import Model

from .transforms import Shape

if TYPE_CHECKING:
    from .source import Checkpoint


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

    def raise_if_any(self, model: Model, source: Checkpoint, family: str) -> None:
        """Raises `WeightsError` with all of them."""
        if self.lines(family):
            remedy = self.remedy(model, source)
            causes = self.take_causes(model)
            message = f"{source.path}{_build_of(source)} does not fit {model.name} (read by the {family} map):"
            raise WeightsError("\n  ".join([message, *causes, *self.lines(family)]), remedy)

    def take_causes(self, model: Model) -> list[str]:
        """The figures that explain many faults, as sentences; the faults that they explain are taken out."""
        causes: dict[str, tuple[int, int]] = {}  # key of the spec -> (spec's, file's)
        for has, needs, paths in self.misshapen.values():
            if paths[0].endswith("embedding.tokens.weight") and len(has) == 2:
                causes |= {
                    key: (ours, theirs)
                    for key, ours, theirs in zip(("vocab_size", "d_model"), needs, has, strict=True)
                    if ours != theirs
                }
        causes |= self._depth(model)
        pairs = set(causes.values())
        self.misshapen = {
            name: fault
            for name, fault in self.misshapen.items()
            if len(fault[0]) != len(fault[1])
            or not all(a == b or (b, a) in pairs for a, b in zip(fault[0], fault[1], strict=True))
        }
        self.disagreeing = [line for line in self.disagreeing if _figures(line) not in pairs]
        return [f"{key} is {ours} in the spec and {theirs} in the file" for key, (ours, theirs) in causes.items()]

    def _depth(self, model: Model) -> dict[str, tuple[int, int]]:
        """`decoder.layers`, where the file's stack is shorter or longer; the missing or extra layers are taken out."""
        found: dict[str, tuple[int, int]] = {}
        for name, stack in model.stacks().items():
            depth, inside = len(stack.layers), f"{name}.layers."
            rows = {theirs: _number(ours[0], inside) for theirs, ours in self.missing.items()}
            absent = {row for row in rows.values() if row is not None}
            first = min(absent, default=depth)
            own = {p.path for p in model.tensors() if _number(p.path, inside) in absent}
            told = {path for theirs, paths in self.missing.items() if rows[theirs] in absent for path in paths}
            if absent and absent == set(range(first, depth)) and own == told:
                found[f"{name}.layers"] = (depth, first)
                self.missing = {n: ours for n, ours in self.missing.items() if rows[n] is None}
        if len(model.stacks()) == 1 and not found:
            ((name, stack),) = model.stacks().items()
            beyond = [n for n in self.extra if (_number(n) or 0) >= len(stack.layers)]
            if beyond:
                found[f"{name}.layers"] = (len(stack.layers), 1 + max(_number(n) or 0 for n in beyond))
                self.extra = [n for n in self.extra if n not in beyond]
        return found

    def remedy(self, model: Model, source: Checkpoint) -> str | None:
        """What would most likely put it right."""
        for has, needs, paths in self.misshapen.values():
            rows = {"tokens": "vocab_size", "positions": "context_length"}
            for path in paths:
                key = rows.get(path.split(".")[-2])
                if key and len(has) == 2 and has[0] != needs[0] and has[1:] == needs[1:]:
                    return f"the file's table has {has[0]} rows, the spec's {needs[0]}: compare {key}"
        missing = [path for paths in self.missing.values() for path in paths]
        if "head.dense.weight" in missing and all(path.startswith("head.") for path in missing):
            return "the file has no such head: the layers alone are head: none"
        if "head.out.weight" in missing:
            return "the file has no output matrix of its own: the checkpoint may be tied (head: {tied: true})"
        if self.untied:
            return "if the checkpoint has a head of its own: head: {tied: false}"
        return None


def _number(name: str, inside: str = "") -> int | None:
    """The first number in a name, where it begins so: the layer's."""
    match = re.search(r"(?:^|\.)(\d+)\.", name.removeprefix(inside)) if name.startswith(inside) else None
    return int(match[1]) if match else None


def _figures(line: str) -> tuple[int, int] | None:
    """The spec's and the file's figure in a sentence about both."""
    match = re.search(r" is (\d+) in the spec and (\d+) in ", line)
    return (int(match[1]), int(match[2])) if match else None


def _build_of(source: Checkpoint) -> str:
    """Of which model a folder that `archspec build` wrote is."""
    folder = source.path if source.path.is_dir() else source.path.parent
    spec = folder / "spec.yaml"
    match = re.search(r"^name: *(.+)$", spec.read_text(encoding="utf-8"), re.MULTILINE) if spec.is_file() else None
    return f", a build of {match[1]}," if match and "archspec" in source.formats else ""


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
