"""Engines take turns, round by round, and the machine's limits are probed in between.

Whatever else a machine does then meets all of them alike.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from archspec.exporters.runtime.generation import PIECE

from .processes import Process

Progress = Callable[[str, float], None]
"""(what is being done, the share of it that is done)"""

#: Steps after the first token that are not measured: buffers find their size.
WARM = 1


@dataclass(frozen=True)
class Plan:
    """What every engine does in a round. contexts: tokens that are read; new: steps measured after them, where it `generates`."""

    contexts: tuple[int, ...]
    batch: int
    new: int
    rounds: int
    generates: bool = True

    def rows(self, context: int) -> int:
        """Rows of the matrix product that a prompt is held against: long ones are read in pieces."""
        return self.batch * min(context, PIECE)


@dataclass(frozen=True)
class Turn:
    """What one engine did in a round at one context, in seconds: until the first token, and for each step after it.

    Of a model that reads whole texts, `first` is the text.
    """

    first: float
    step: float | None = None


@dataclass
class Limits:
    """What the machine could do in each round, at one context: bytes/s, at best and in ordinary pages, and FLOP/s."""

    read: list[float] = field(default_factory=list)
    ordinary: list[float] = field(default_factory=list)
    multiply: list[float] = field(default_factory=list)


@dataclass
class Taken:
    """Turns by engine and context, limits by context, and the bytes that each engine took of a card."""

    turns: dict[str, dict[int, list[Turn]]]
    limits: dict[int, Limits]
    card: dict[str, int]


def take_turns(
    plan: Plan, engines: Mapping[str, Process], machine: Process, product: tuple[int, int], progress: Progress
) -> Taken:
    """Every engine at every context in each round; a first round warms up and, where that is asked for, compiles.

    product: (in, out) of the matrix whose product with a prompt's tokens is the limit of reading it.
    """
    order = list(engines)
    taken = Taken({name: {c: [] for c in plan.contexts} for name in order}, {c: Limits() for c in plan.contexts}, {})
    turns, done = (plan.rounds + 1) * len(plan.contexts) * len(order), 0
    for number in range(plan.rounds + 1):
        for context in plan.contexts:
            limits = taken.limits[context]
            read, ordinary = machine.call("read")
            multiply = machine.call("multiply", rows=plan.rows(context), inp=product[0], out=product[1])
            if number:
                limits.read.append(read)
                limits.ordinary.append(ordinary)
                limits.multiply.append(multiply)
            for name in order:
                progress(f"round {number} of {plan.rounds}: {name}, {context:,} tokens", done / turns)
                before = machine.call("used")
                turn = _turn(engines[name], plan, context)
                taken.card[name] = taken.card.get(name, 0) + machine.call("used") - before
                if number:
                    taken.turns[name][context].append(turn)
                done += 1
        order.append(order.pop(0))
    return taken


def _turn(engine: Process, plan: Plan, context: int) -> Turn:
    if not plan.generates:
        return Turn(engine.call("forward", length=context, batch=plan.batch))
    first, *rest = engine.call("generate", context=context, batch=plan.batch, new=1 + WARM + plan.new)
    return Turn(first, statistics.mean(rest[WARM:]))
