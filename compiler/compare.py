"""Two complete specs side by side: what differs, by the paths that `--set` takes, and the numbers of both.

Stacks are compared layer by layer, as far as both go, so that how layers were grouped is no difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, TypeAlias

from archspec.errors import UsageError
from archspec.language.model import Entry, Group, Layer, Spec, Stack, depth_of
from archspec.ops.record import Record

from .compile import Compiled
from .count import DEFAULT_LENGTH, Counts, count
from .grammar import BLOCK_KEYS, TOP
from .indices import indices
from .precision import FP32, Precision
from .show import brief, inline, layer_mapping, spec_mapping

#: What says nothing about the function that a model computes.
WITHOUT_FUNCTION = ("name", "about", "dropout", "init", "expect")
#: A construct as `show` prints it, as plain data.
Said: TypeAlias = dict[str, Any]


class Difference(Record):
    """One value that differs.

    `old` and `new` are plain data, None where a spec does not say it. `words` are both as they are read: parts of two kinds without
    what they share, and without defaults. `layers` are the spans of those that it holds for, counted from 0; None: for all.
    """

    path: str
    old: Any
    new: Any
    words: tuple[str, str]
    layers: tuple[range, ...] | None = None
    #: What `--set` takes, over the complete first spec, to make this value that of the second; None where no single one does.
    override: str | None = None

    @property
    def function(self) -> bool:
        """Does the model compute something else for it?"""
        return self.path.split(".")[0] not in WITHOUT_FUNCTION

    def __str__(self) -> str:
        """`none → 4096 in layers 0, 2, …, 40`"""
        where = ""
        if self.layers:
            where = f" in layer{'s' if sum(map(len, self.layers)) > 1 else ''} {indices(self.layers)}"
        return f"{' → '.join(self.words)}{where}"

    def record(self) -> dict[str, Any]:
        spans = None if self.layers is None else [[span.start, span.stop - 1] for span in self.layers]
        return {
            "path": self.path, "layers": spans, "old": self.old, "new": self.new, "function": self.function, "set": self.override
        }  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- values


def differences(a: Spec, b: Spec) -> tuple[Difference, ...]:
    """What differs between two complete specs, in the order of `show`; what is without a function comes last.

    `expect` is compared where both have one: `--set` leaves it out.
    """
    old, new = spec_mapping(a), spec_mapping(b)
    for said in (old, new):
        said.get("decoder", {}).setdefault("cross_attention", "none")  # unsaid in a decoder without an encoder
    found: list[Difference] = []
    for key in (key for key in Spec.model_fields if key != "expect" or (a.expect and b.expect)):
        first, second = getattr(a, key), getattr(b, key)
        if isinstance(first, Stack) and isinstance(second, Stack):
            found += _stacks(key, first, second, old[key], new[key])
        else:
            found += _apart(key, first, second, old.get(key), new.get(key))
    found = [d.replaced(override=_override(d, old, new)) for d in found]
    return (*(d for d in found if d.function), *(d for d in found if not d.function))


def _apart(path: str, a: Any, b: Any, old: Any, new: Any) -> Iterator[Difference]:
    """What differs below a path. `a` and `b` are the constructs, `old` and `new` what they are as plain data."""
    if old == new:
        return
    mappings = isinstance(old, dict) and isinstance(new, dict)
    if mappings and old.get("kind") == new.get("kind"):
        for key in dict.fromkeys((*old, *new)):
            yield from _apart(f"{path}.{key}", getattr(a, key), getattr(b, key), old.get(key), new.get(key))
        return
    first, second = (x if isinstance(x, Stack) else brief(x, value) for x, value in ((a, old), (b, new)))
    if mappings:
        first, second = _without(first, second), _without(second, first)
    yield Difference(path, old, new, (_said(path, first), _said(path, second)))


def _without(value: Any, other: Any) -> Said:
    """A mapping without what another one says too."""
    return {key: part for key, part in value.items() if key not in other or part != other[key]}


def _said(path: str, value: Any) -> str:
    """A value in words. What is not there is `none` where that may be written."""
    if isinstance(value, Stack):
        return f"{depth_of(value.layers)} layers"
    if value is None:
        shape = TOP.keys_of().get(path)
        return "none" if shape and shape.removable else "—"
    bare = isinstance(value, dict) and list(value) == ["kind"]
    return inline(value["kind"] if bare else value)


def _override(d: Difference, old: Said, new: Said) -> str | None:
    """`path=value`, where both specs have their values at the path and not in entries of layers, and the new one can be written."""
    if d.layers is not None or (d.new is None and d.words[1] != "none"):
        return None
    if (_lookup(old, d.path), _lookup(new, d.path)) != (d.old, d.new):
        return None
    return f"{d.path}={'none' if d.new is None else inline(d.new)}"


def _lookup(place: Any, path: str) -> Any:
    """What a mapping says at a path; None where it says nothing."""
    for step in path.split("."):
        place = place.get(step) if isinstance(place, dict) else None
    return place


# ------------------------------------------------------------------------------------------------------------- layers


def _stacks(name: str, a: Stack, b: Stack, old: Said, new: Said) -> Iterator[Difference]:
    """What differs between two stacks: how deep they are, their last norms, and their layers."""
    depths = depth_of(a.layers), depth_of(b.layers)
    if depths[0] != depths[1]:
        yield Difference(f"{name}.layers", depths[0], depths[1], (str(depths[0]), str(depths[1])))
    yield from _apart(f"{name}.final_norm", a.final_norm, b.final_norm, old["final_norm"], new["final_norm"])
    found: dict[str, dict[tuple[str, str], tuple[Difference, list[int]]]] = {}  # by path, then by what it says
    for i, d in _layers(name, list(_each(a.layers)), list(_each(b.layers))) if a.layers != b.layers else ():
        found.setdefault(d.path, {}).setdefault((inline(d.old), inline(d.new)), (d, []))[1].append(i)
    order = ("layers", *BLOCK_KEYS)
    paths = sorted(found, key=lambda path: order.index(path.split(".")[1]))
    for d, where in (row for path in paths for row in found[path].values()):
        common = len(where) == min(depths) > where[-1]
        values = [_lookup({name: said}, d.path) for said in (old, new)]
        everywhere = common and (depths[0] == depths[1] or values == [d.old, d.new])
        yield d if everywhere else d.replaced(layers=_spans(where))


def _each(entries: tuple[Entry, ...], start: int = 0, back: int = 0) -> Iterator[tuple[Layer, int]]:
    """Every layer, and the index of the one whose weights it has: itself, or one before it. `back` is how far before."""
    for entry in entries:
        row = depth_of(entry.layers) if isinstance(entry, Group) else 1
        for turn in range(entry.repeat):
            at, before = start + turn * row, back + (turn * row if entry.weights == "shared" else 0)
            if isinstance(entry, Group):
                yield from _each(entry.layers, at, before)
            else:
                yield entry, at - before
        start += entry.repeat * row


def _spans(where: list[int]) -> tuple[range, ...]:
    spans: list[range] = []
    for i in where:
        start = spans.pop().start if spans and spans[-1].stop == i else i
        spans.append(range(start, i + 1))
    return tuple(spans)


def _layers(name: str, a: list[tuple[Layer, int]], b: list[tuple[Layer, int]]) -> Iterator[tuple[int, Difference]]:
    """What differs between layers that stand in the same place, and then what those have that only the deeper stack has."""
    between = cache(lambda one, other: tuple(_layer(name, one, other)))
    for i, ((one, from_a), (other, from_b)) in enumerate(zip(a, b, strict=False)):
        for d in between(one, other):
            yield i, d
        if from_a != from_b:
            two = max(from_a, from_b) < i
            old, new = (f"shared with {n}" if two else "own" if n == i else "shared" for n in (from_a, from_b))
            yield i, Difference(f"{name}.layers.weights", old, new, (old, new))
    both, deeper = min(len(a), len(b)), max(a, b, key=len)
    for i, d in _beyond(name, deeper[:both], deeper[both:]):
        values, words = (None, d.new), ("—", d.words[1])
        yield i, Difference(d.path, *values, words) if deeper is b else Difference(d.path, *values[::-1], words[::-1])


def _beyond(
    name: str, both: list[tuple[Layer, int]], more: list[tuple[Layer, int]]
) -> Iterator[tuple[int, Difference]]:
    """How a further layer that is like none before differs from the last before; and that weights are shared, where none were."""
    known = {layer.model_copy(update={"repeat": 1, "weights": "own"}) for layer, _ in both}
    shared = any(origin < i for i, (_, origin) in enumerate(both))
    for i, (layer, origin) in enumerate(more, len(both)):
        if layer.model_copy(update={"repeat": 1, "weights": "own"}) not in known:
            for d in _layer(name, both[-1][0], layer):
                yield i, d
        if origin < i and not shared:
            yield i, Difference(f"{name}.layers.weights", "own", "shared", ("own", "shared"))


def _layer(name: str, a: Layer, b: Layer) -> Iterator[Difference]:
    old, new = layer_mapping(a), layer_mapping(b)
    for key in BLOCK_KEYS:
        yield from _apart(f"{name}.{key}", getattr(a, key), getattr(b, key), old.get(key), new.get(key))


# ------------------------------------------------------------------------------------------------------------ numbers


class Side(Record):
    """The numbers of one of two models: of its first call, and of the step that reads the last token after the others."""

    prefill: Counts
    step: Counts | None

    def record(self) -> dict[str, Any]:
        p, calls = self.prefill.parameters, {"prefill": self.prefill, "step": self.step}
        return {
            "name": self.prefill.name,
            "form": self.prefill.form,
            "parameters": {"total": p.total, "active": p.active, "by_component": p.by_component},
            "flops": {
                name: {"dense": sum(c.dense.values()), "causal": sum(c.causal.values())} if c else None
                for name, c in calls.items()
            },
            "kv_cache": {"bytes": self.prefill.cache_bytes},
            "memory": {"weights": self.prefill.weight_bytes},
        }


class Comparison(Record):
    """What differs between two models, and what each of them costs. True where anything differs."""

    differences: tuple[Difference, ...]
    a: Side
    b: Side

    def __bool__(self) -> bool:
        return bool(self.differences)

    @property
    def same_function(self) -> bool:
        """Do both compute the same, given the same weights?"""
        return not any(d.function for d in self.differences)

    def record(self) -> dict[str, Any]:
        """The comparison as plain data. Keys are stable; docs/counting.md documents them."""
        n = self.a.prefill.lengths
        return {
            "differs": bool(self),
            "same_function": self.same_function,
            "differences": [d.record() for d in self.differences],
            "batch": n.batch,
            "length": n.length,
            "source_length": max(n.source, self.b.prefill.lengths.source),
            "precision": self.a.prefill.precision.record(),
            "a": self.a.record(),
            "b": self.b.record(),
        }


def compare(
    a: Compiled,
    b: Compiled,
    *,
    batch: int = 1,
    length: int | None = None,
    source_length: int | None = None,
    precision: Precision = FP32,
) -> Comparison:
    """Compare two models.

    Args:
        batch: sequences.
        length: tokens in each: all new in the first call, the last one new in the step; by default the shorter context.
        source_length: tokens of an encoder's input beside a decoder; by default the shorter context.
        precision: what weights are stored in and what is computed in.

    Raises:
        UsageError: as `count` does.
    """
    shorter = min(x.spec.context_length or DEFAULT_LENGTH for x in (a, b))
    if source_length and not any(x.model.form == "encoder_decoder" for x in (a, b)):
        raise UsageError("neither spec has an encoder beside a decoder", "leave --source-length out")
    tokens = length or shorter

    def side(x: Compiled) -> Side:
        prefill = count(
            x.model, context_length=x.spec.context_length, batch=batch, length=tokens, precision=precision,
            source_length=(source_length or shorter) if x.model.form == "encoder_decoder" else None,
        )  # fmt: skip
        return Side(prefill, None if x.model.form == "encoder" else prefill.at(length=1, past=tokens - 1))

    return Comparison(differences(a.spec, b.spec), side(a), side(b))
