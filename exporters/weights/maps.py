"""Name maps between checkpoints and our paths, as data that works in both directions.

A rule says `our paths ↔ their names` and the steps between them. In a pattern `{i}` is a layer's index and `*` is `weight` or
`bias`; a field that only their pattern has, `{e}`, counts along the first axis of our tensor (experts, heads). A rule applies
where the model has all its paths, so one table serves models with and without biases, q/k norms and the like. Of several rules
for the same paths that one counts whose names the checkpoint has, by default the first. To add a family is to add one module
with a `Family` to `families/`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal

from archspec.ops.base import Op, Tensor, own_tensors, walk
from archspec.ops.head import ClassifierHead, LmHead, NoHead, PoolerHead
from archspec.ops.model import Model

from .config import Ledger
from .transforms import Shape, Transform, blank, written

Format = Literal["archspec", "huggingface", "gguf"]
HEADS: dict[type[Op], str] = {LmHead: "lm", PoolerHead: "pooler", ClassifierHead: "classifier", NoHead: "none"}


@cache
def matcher(pattern: str) -> re.Pattern[str]:
    """A pattern as a regular expression with its fields as groups."""
    text = re.escape(pattern).replace(r"\*", "(?P<leaf>weight|bias)").replace(r"\{path\}", "(?P<path>.+)")
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>\\d+)", text))


def filled(pattern: str, fields: Mapping[str, str]) -> str:
    """A pattern with its fields put in."""
    return pattern.replace("*", "{leaf}").format_map(fields)


def kind_of(name: str) -> str:
    """A name with 0 for every number and every field: what a pattern can match has the kind of the pattern."""
    return re.sub(r"\{\w+\}|\d+", "0", name)


@dataclass(frozen=True)
class Rule:
    """Our paths, their names, and the steps from ours to theirs. `copies`: further names of the same tensor."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    chain: tuple[Transform, ...] = ()
    copies: tuple[str, ...] = ()


def rule(ours: str, theirs: str, *chain: Transform, copies: str = "") -> Rule:
    """A rule from patterns separated by blanks."""
    return Rule(tuple(ours.split()), tuple(theirs.split()), chain, tuple(copies.split()))


def under(ours: str, theirs: str, rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The rules with a prefix on either side."""
    return tuple(Rule(_each(ours, r.ours), _each(theirs, r.theirs), r.chain, _each(theirs, r.copies)) for r in rules)


def _each(prefix: str, patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(prefix + p for p in patterns)


def _based(base: str, patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(p.replace("{base}", base) for p in patterns)


@dataclass(frozen=True)
class Family:
    """The checkpoints that share one map."""

    name: str
    #: Embedding, layers, final norm; their names stand below `base`.
    body: tuple[Rule, ...]
    #: Kind of head -> its tensors, with full names (`{base}` is the prefix).
    heads: Mapping[str, tuple[Rule, ...]]
    format: Format = "huggingface"
    #: What a checkpoint of the model with a head puts before the body's names, and one of the bare body does not.
    base: str = ""
    #: `model_type` of config.json, or `general.architecture` of GGUF.
    types: tuple[str, ...] = ()
    #: Tensors that are no weights: masks and tables that are computed. Below `base`.
    buffers: tuple[str, ...] = ()
    #: Tensors that add nothing where they are 0 throughout, and then stand in no spec. Full names.
    idle: tuple[str, ...] = ()
    #: Tensors of heads that the language does not have. Full names.
    aside: tuple[str, ...] = ()
    #: Config or metadata -> what a spec says.
    read: Callable[[Ledger], dict[str, Any]] | None = None
    #: Model and context length -> config.json.
    write: Callable[[Model, int | None], dict[str, Any]] | None = None
    #: Layers past the model's last are of another head (multi-token prediction): their names, below `base`.
    beyond: str = ""

    def rules(self, model: Model, base: str) -> tuple[Rule, ...]:
        """Those that can apply to this model."""
        return (*under("", base, self.body), *self._head(HEADS[type(model.head)], base))

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds of all names that some model's tensors have here."""
        heads = [r for base in ("", self.base) for kind in self.heads for r in self._head(kind, base)]
        rules = [*self.body, *under("", self.base, self.body), *heads]
        patterns = [p for r in rules for p in (*r.theirs, *r.copies)]
        return frozenset(kind_of(p.replace("*", leaf)) for p in patterns for leaf in ("weight", "bias"))

    def is_buffer(self, name: str, base: str) -> bool:
        """Is it no weight at all?"""
        return any(matcher(base + pattern).fullmatch(name) for pattern in self.buffers)

    def is_of_another_head(self, name: str, model: Model, base: str) -> bool:
        """Does it belong to a head that this model does not have?"""
        others = [r for kind in self.heads if kind != HEADS[type(model.head)] for r in self._head(kind, base)]
        patterns = [*self.aside, *(p for r in others for p in (*r.theirs, *r.copies))]
        return any(matcher(pattern).fullmatch(name) for pattern in patterns) or self._is_beyond(name, model, base)

    def _is_beyond(self, name: str, model: Model, base: str) -> bool:
        match = matcher(f"{base}{self.beyond}{{path}}").fullmatch(name) if self.beyond else None
        return match is not None and int(match["i"]) >= len(model.main[1].layers)

    def _head(self, kind: str, base: str) -> list[Rule]:
        return [Rule(r.ours, _based(base, r.theirs), r.chain, _based(base, r.copies)) for r in self.heads.get(kind, ())]


@dataclass(frozen=True)
class Entry:
    """A rule at one place: these tensors of ours are those names of theirs."""

    ours: tuple[Tensor, ...]
    theirs: tuple[str, ...]
    copies: tuple[str, ...]
    chain: tuple[Transform, ...]
    op: Op

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(t.path for t in self.ours)

    @property
    def our_shapes(self) -> tuple[Shape, ...]:
        return tuple(t.shape for t in self.ours)

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """What their tensors must be."""
        return tuple(tuple(x.shape) for x in written(self.chain, blank(self.our_shapes), self.op))


@dataclass(frozen=True)
class Plan:
    """A family's map laid over a model."""

    family: Family
    base: str
    #: What has to be there.
    entries: tuple[Entry, ...]
    #: Second names of tied tensors: they may be there.
    aliases: tuple[Entry, ...]
    #: Our tensors that the family has no name for.
    nameless: tuple[str, ...]

    @cached_property
    def names(self) -> frozenset[str]:
        """All names that the plan can use."""
        return frozenset(n for e in (*self.entries, *self.aliases) for n in (*e.theirs, *e.copies))


def plan(family: Family, model: Model, names: Collection[str] | None = None) -> Plan:
    """The family's map over this model; `names` are a checkpoint's, and say whether it has the family's prefix."""
    base = family.base if names is None or any(n.startswith(family.base) for n in names) else ""
    owners = {t.path: (t, op) for path, op, _ in walk(model) for t in own_tensors(op, path)}
    found = [entry for r in family.rules(model, base) for entry in _places(r, owners)]
    if names is not None:  # what the checkpoint has comes first
        found.sort(key=lambda entry: not all(n in names for n in entry.theirs))
    entries: list[Entry] = []
    done: set[str] = set()
    for entry in found:
        if done.isdisjoint(entry.paths):
            entries.append(entry)
            done.update(entry.paths)
    stored = [e for e in entries if not all(p in model.ties for p in e.paths)]
    aliases = [e for e in entries if all(p in model.ties for p in e.paths)]
    nameless = [p for p in owners if p not in done and p not in model.ties]
    return Plan(family, base, tuple(stored), tuple(aliases), tuple(nameless))


def _places(r: Rule, owners: Mapping[str, tuple[Tensor, Op]]) -> Iterator[Entry]:
    """Wherever the model has all paths of the rule."""
    for path in owners:
        if not (match := matcher(r.ours[0]).fullmatch(path)):
            continue
        fields = match.groupdict()
        paths = [filled(pattern, fields) for pattern in r.ours]
        if all(p in owners for p in paths):
            ours = tuple(owners[p][0] for p in paths)
            theirs = tuple(n for pattern in r.theirs for n in _counted(pattern, fields, ours[0].shape[0]))
            copies = tuple(filled(n, fields) for n in r.copies)
            yield Entry(ours, theirs, copies, r.chain, owners[path][1])


def _counted(pattern: str, fields: Mapping[str, str], count: int) -> list[str]:
    """A pattern with its fields put in; with a field that is not ours, a name for each of so many."""
    free = [name for name in re.findall(r"\{(\w+)\}", pattern) if name not in fields]
    if not free:
        return [filled(pattern, fields)]
    return [filled(pattern, {**fields, free[0]: str(i)}) for i in range(count)]


def recognise(families: Sequence[Family], model: Model, names: Collection[str]) -> list[Plan]:
    """The plans that use most of a checkpoint's names; none where no name is known, several where names cannot tell.

    Families that read those names alike are one to this checkpoint: of them the one that leaves least of the model open. A plan
    takes a while, and is made only for a family that can know as many names as another does.
    """
    kinds = Counter(map(kind_of, names))
    reach = {f.name: kinds.total() if f.format == "archspec" else sum(kinds[k] for k in f.kinds) for f in families}
    plans: dict[str, tuple[Plan, int]] = {}
    best = 1
    for family in sorted(families, key=lambda f: -reach[f.name]):
        if reach[family.name] < best:
            break
        p = plan(family, model, names)
        known = len(p.names.intersection(names))
        plans[family.name], best = (p, known), max(best, known)
    found = [plans[f.name][0] for f in families if f.name in plans and plans[f.name][1] == best]
    read: dict[str, tuple[Any, ...]] = {}
    for p in found:
        for e in p.entries:
            way = (e.theirs, e.chain)
            if all(n in names for n in e.theirs) and any(read.setdefault(path, way) != way for path in e.paths):
                return found
    return sorted(found, key=lambda p: _open(p, names))[:1]


def _open(found: Plan, names: Collection[str]) -> int:
    """How many tensors of the model the plan does not find."""
    return len(found.nameless) + sum(len(e.paths) for e in found.entries if not all(n in names for n in e.theirs))
