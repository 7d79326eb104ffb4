"""An exported folder measured: what fits the model, which engines, and all that came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from archspec.errors import UsageError
from archspec.exporters.room import demand_turn
from archspec.exporters.runtime.device import Device
from archspec.exporters.runtime.folder import ExportFolder
from archspec.exporters.units import many

from .processes import Process
from .turns import WARM, Limits, Plan, Progress, Turn, take_turns
from .work import Work

CONTEXTS = (128, 1024)
NEW = 16
#: The name of the engine that is archspec's own.
OURS = "archspec"


@dataclass(frozen=True)
class Setup:
    """With what it is measured, and what beside it."""

    device: Device
    threads: int
    torch: bool
    compiled: bool


@dataclass(frozen=True)
class Measured:
    """An engine: what it says of itself, its turns by context, its peak memory and what it took of a card's, in bytes."""

    about: Mapping[str, Any]
    turns: Mapping[int, Sequence[Turn]]
    peak: int
    card: int


@dataclass(frozen=True)
class Results:
    """All that was measured: engines by name, limits by context."""

    folder: ExportFolder
    plan: Plan
    setup: Setup
    work: Work
    engines: Mapping[str, Measured]
    limits: Mapping[int, Limits]

    @property
    def device(self) -> str:
        """Where it really ran."""
        return str(self.engines[OURS].about["device"])

    def step_bytes(self, context: int) -> int:
        """Bytes that a measured step reads, in their mean."""
        prompt, source = self.work.lengths(self.plan, context)
        return self.work.step_bytes(prompt + WARM + self.plan.new // 2, self.plan.batch, source)

    def prompt_flops(self, context: int) -> int:
        """FLOPs until the first token."""
        prompt, source = self.work.lengths(self.plan, context)
        return self.work.prompt_flops(prompt, self.plan.batch, source)


def settle(folder: ExportFolder, contexts: Sequence[int] | None, batch: int, new: int | None, rounds: int) -> Plan:
    """A plan of what was asked for; where nothing was, of what fits the model.

    Raises UsageError where the model has no room for it.
    """
    generates = folder.generates
    whole = folder.spec.context_length
    steps = new or (NEW if whole is None else max(1, min(NEW, whole // 4)))
    made = steps + WARM if generates else 0
    if whole is not None and made >= whole:
        raise UsageError(
            f"a context of {whole} has no room for {many(steps, 'new token')}", f"--new at most {whole - WARM - 1}"
        )
    room = whole if whole is None or folder.form == "encoder_decoder" else whole - made
    if contexts is None:
        contexts = sorted(c if room is None else min(c, room) for c in CONTEXTS)
    for asked in contexts:
        if room is not None and asked > room:
            beyond = f" and {made} after them" if room != whole else ""
            raise UsageError(
                f"{asked:,} tokens{beyond} are more than the context of {folder.spec.name}: {whole:,}",
                f"--context at most {room}",
            )
    return Plan(tuple(dict.fromkeys(contexts)), batch, steps, rounds, generates)


def measure(folder: ExportFolder, plan: Plan, setup: Setup, progress: Progress) -> Results:
    """Run the plan. Raises BenchError where an engine cannot run, with what is wrong with it, and UsageError where there is no room
    for it.
    """
    work = Work(folder)
    given: dict[str, Any] = {"folder": str(folder.path), "threads": setup.threads}
    with ExitStack() as stack:

        def start(name: str, remedy: str = "", **options: Any) -> Process:
            progress(f"loading {name}", 0.0)
            process = stack.enter_context(Process(name, remedy=remedy))
            process.call("open", **options)
            return process

        ours = start("ONNX Runtime", engine="folder", device=setup.device, **given)
        device = ours.call("about")["device"]
        _demand_room(work, plan, ours.call("free"), "the card's memory" if device == "cuda" else "memory")
        machine = start(
            "the probe", engine="machine", device=device, threads=setup.threads, half=work.dtype != "float32"
        )
        running = {OURS: ours}
        if device == "cuda" and plan.generates and ours.call("recordable"):
            running[f"{OURS}, recorded"] = start("ONNX Runtime", engine="folder", device=device, recorded=True, **given)
        for name, option, compiled in (("PyTorch eager", "torch", False), ("torch.compile", "compile", True)):
            if setup.torch and (setup.compiled or not compiled):
                options: dict[str, Any] = {
                    "engine": "torch",
                    "device": device,
                    "dtype": work.dtype,
                    "compiled": compiled,
                }
                running[name] = start(name, f"leave it out: --no-{option}", **options, **given)
        taken = take_turns(plan, running, machine, work.product(), progress)
        engines = {}
        for name, process in running.items():
            about = process.call("about")
            card = about["card_bytes"] + taken.card[name]
            engines[name] = Measured(about, taken.turns[name], process.call("peak"), card)
    return Results(folder, plan, setup, work, engines, taken.limits)


def _demand_room(work: Work, plan: Plan, free: int | None, where: str) -> None:
    """Raises UsageError for the context that takes most, where there is no room for it beside a loaded model."""
    largest = max(plan.contexts, key=lambda context: work.turn_bytes(plan, context))
    what = f"{many(plan.batch, 'text')} of {many(largest, 'token')}"
    after, fewer = (
        (f" and {many(WARM + plan.new, 'new one')} after each", "--context or --new")
        if plan.generates
        else ("", "--context")
    )
    demand_turn(what + after, plan.batch, work.turn_bytes(plan, largest), free, where, fewer)
