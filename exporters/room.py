"""Is there room in this machine's memory? Said before anything is allocated: a machine that thrashes says nothing."""

from __future__ import annotations

from pathlib import Path

from archspec.compiler.precision import BYTES
from archspec.errors import UsageError
from archspec.exporters.units import size
from archspec.ops.model import Model


def free_memory() -> int | None:
    """Bytes that can still be allocated; None where nothing says so."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:  # not Linux
        return None
    figures = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
    return figures.get("MemAvailable")


def demand_turn(what: str, batch: int, needed: int, free: int | None, where: str, fewer: str) -> None:
    """Raises `UsageError` where what is to be measured does not fit.

    needed: bytes for `batch` rows, at the least. free: bytes of `where`. fewer: the options that say how many tokens a row has.
    """
    if free is not None and needed > free:
        fits = batch * free // needed
        raise UsageError(
            f"To measure {what} takes {size(needed)} of {where} or more, and {size(free)} are free.",
            f"--batch at most {fits}" if fits else f"fewer tokens: {fewer}",
        )


def demand_verification(model: Model, weight_bytes: int, built: bool, narrow: bool) -> None:
    """Raises `UsageError` where an export cannot be compared with PyTorch in float32, because it does not fit into memory.

    weight_bytes: of the export. built: the module in float32 is there already. narrow: the export is no float32, and ONNX
    Runtime is given two graphs in float32 beside it.
    """
    free = free_memory()
    whole = BYTES["fp32"] * sum(t.size for t in model.tensors())
    needed = weight_bytes + (0 if built else whole) + (2 * whole if narrow else 0)
    if free is not None and needed > free:
        raise UsageError(
            f"To verify {model.name} takes {size(needed)} of memory, for PyTorch in float32 and ONNX Runtime beside it, "
            f"and {size(free)} are free.",
            "export it without (--no-verify), or verify it on a larger machine, or a smaller one of its kind here "
            "(--set decoder.layers=2)",
        )
