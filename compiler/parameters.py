"""Counting parameters and cache rows: what the operations declare, added up. No body is run."""

from __future__ import annotations

from collections.abc import Iterator

from archspec.ops.base import Op, Tensor, stack_tensors, tensors, walk
from archspec.ops.leaves import Linear, Slot
from archspec.ops.model import Model
from archspec.ops.moe import Moe
from archspec.ops.record import Record


class LayerRun(Record):
    """Equal layers in a row: indices first … last (inclusive) of a stack."""

    stack: str
    first: int
    last: int
    #: Parameters of one such layer, by component; what all layers of the stack share is in none.
    by_component: dict[str, int]
    #: Of these, what one token does not use.
    idle: int
    #: Do these layers use the weights of an earlier one?
    shared: bool

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    @property
    def total(self) -> int:
        """Parameters of one such layer."""
        return sum(self.by_component.values())


class Parameters(Record):
    """Parameters of a model, each stored tensor once: a tied head or a shared layer adds nothing.

    `embedding` is what is looked up by index (tokens, positions, token types); an untied head is not embedding.
    `active` is what one token uses: all but the experts it does not choose.
    """

    total: int
    embedding: int
    active: int
    #: What the total would be if nothing were tied or shared.
    untied: int
    by_component: dict[str, int]
    layers: tuple[LayerRun, ...]
    #: Path of a tensor that is another one -> path of the stored one, layers that share weights left out.
    ties: dict[str, str]

    @property
    def non_embedding(self) -> int:
        return self.total - self.embedding


TABLES = ("token_embedding", "position_embedding", "token_type_embedding")


def count_parameters(model: Model) -> Parameters:
    """Add up the leaves. Equal layers are walked once and multiplied, so that depth costs nothing."""
    sizes: dict[str, int] = {}
    for t, times in repeated(model):
        _add(sizes, t.component, times * t.size if t.trained else 0)
    runs = tuple(run for name, stack in model.stacks().items() for run in _runs(name, stack.layers, stack.owners))
    untied = (
        sum(run.count * run.total for run in runs)
        + sum(_of_stacks(model))
        + sum(t.size for t in _outside_layers(model))
    )
    idle = sum(run.count * run.idle for run in runs if not run.shared)
    ties = {path: to for path, to in model.ties.items() if ".layers." not in path}
    total = sum(sizes.values())
    embedding = sum(sizes.get(c, 0) for c in TABLES)
    return Parameters(total, embedding, total - idle, untied, _ordered(sizes), runs, ties)


def repeated(model: Model) -> Iterator[tuple[Tensor, int]]:
    """(tensor, how often it is stored): equal layers are one, by the paths of the first of them; 0: it is another one."""
    for name, stack in model.stacks().items():
        equal: dict[int, list[int]] = {}
        for i, layer in enumerate(stack.layers):
            if stack.owners[i] == i:
                equal.setdefault(id(layer), []).append(i)
        for first, *others in equal.values():
            at = f"{name}.layers.{first}."
            for t in tensors(stack.layers[first], at):
                paths = (t.path, *(f"{name}.layers.{i}.{t.path.removeprefix(at)}" for i in others))
                yield t, sum(path not in model.ties for path in paths)
    yield from ((t, int(t.path not in model.ties)) for t in _outside_layers(model))


def _runs(stack: str, layers: tuple[Op, ...], owners: tuple[int, ...]) -> Iterator[LayerRun]:
    sizes: dict[int, tuple[dict[str, int], int]] = {}
    start = 0
    for i in range(1, len(layers) + 1):
        shared = owners[start] != start
        if i < len(layers) and layers[i] is layers[start] and (owners[i] != i) == shared:
            continue
        op = layers[start]
        if id(op) not in sizes:
            sizes[id(op)] = _sizes(op)
        yield LayerRun(stack, start, i - 1, *sizes[id(op)], shared)
        start = i


def _sizes(layer: Op) -> tuple[dict[str, int], int]:
    """Parameters of a layer by component, and how many of them a token leaves alone: those of experts it does not choose."""
    counted: dict[str, int] = {}
    of_stack = {t.path for t in stack_tensors(layer)}
    for t in tensors(layer):
        if t.path not in of_stack:
            _add(counted, t.component, t.size if t.trained else 0)
    return counted, sum(unchosen(op) for _, op, _ in walk(layer) if isinstance(op, Moe))


def unchosen(op: Moe) -> int:
    """Parameters of the experts that a token does not choose. What experts share, a norm's weight, it does use."""
    stacked = sum(t.size for t in tensors(op.expert) if isinstance(t.leaf, Linear))
    return stacked // op.experts * (op.experts - op.routing.k)


def _of_stacks(model: Model) -> Iterator[int]:
    """Sizes of what all layers of a stack share."""
    for stack in model.stacks().values():
        layers = {id(layer): layer for layer in stack.layers}.values()
        yield from {t.path: t.size for layer in layers for t in stack_tensors(layer)}.values()


def _outside_layers(model: Model) -> Iterator[Tensor]:
    for name, stack in model.stacks().items():
        yield from tensors(stack.embedding, f"{name}.embedding.")
        if stack.final_norm:
            yield from tensors(stack.final_norm, f"{name}.final_norm.")
    yield from tensors(model.head, "head.")


def _add(sizes: dict[str, int], component: str, n: int) -> None:
    sizes[component] = sizes.get(component, 0) + n


_ORDER = (*TABLES, "embedding_projection", "attention", "cross_attention", "ffn", "norm", "residual", "head")


def _ordered(sizes: dict[str, int]) -> dict[str, int]:
    return {c: sizes[c] for c in sorted(sizes, key=lambda c: _ORDER.index(c) if c in _ORDER else len(_ORDER))}


# ------------------------------------------------------------------------------------------------------------- caches


class CacheRun(Record):
    """The caches of equal layers in a row."""

    stack: str
    first: int
    last: int
    #: Name and shape of each: `key`, `value`, `latent`.
    slots: tuple[tuple[str, Slot], ...]

    def elements(self, batch: int, tokens: int, source: int) -> int:
        """Elements that one layer keeps of `batch` sequences of `tokens` tokens and `source` source tokens."""
        return batch * sum(s.heads * s.width * _rows(s, tokens, source) for _, s in self.slots)

    @property
    def count(self) -> int:
        return self.last - self.first + 1


def _rows(slot: Slot, tokens: int, source: int) -> int:
    length = source if slot.stream == "source" else tokens
    return length if slot.rows is None else min(length, slot.rows)


def cache_runs(model: Model) -> tuple[CacheRun, ...]:
    """What each layer keeps between calls, equal layers together."""
    runs: list[CacheRun] = []
    for name, stack in model.stacks().items():
        slots: dict[int, tuple[tuple[str, Slot], ...]] = {}
        for i, layer in enumerate(stack.layers):
            if id(layer) not in slots:
                slots[id(layer)] = tuple(s for _, op, _ in walk(layer) for s in op.state().items())
            mine = slots[id(layer)]
            if not mine:
                continue
            if runs and runs[-1].stack == name and runs[-1].last == i - 1 and runs[-1].slots == mine:
                runs[-1] = CacheRun(name, runs[-1].first, i, mine)
            else:
                runs.append(CacheRun(name, i, i, mine))
    return tuple(runs)
