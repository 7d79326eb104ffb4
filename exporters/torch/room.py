"""Is there room? Said before anything is allocated: a count is exact, and a machine that thrashes says nothing."""

from __future__ import annotations

from pathlib import Path

import torch

from archspec.compiler.parameters import count_parameters
from archspec.errors import UsageError
from archspec.exporters.units import size
from archspec.ops.model import Model


def free_bytes(device: torch.device) -> int | None:
    """Bytes that can still be allocated on a device; None where nothing says so."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:  # not Linux
        return None
    figures = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
    return figures.get("MemAvailable")


def demand_verification(model: Model, weight_bytes: int, built: bool, narrow: bool) -> None:
    """Raises `UsageError` where an export cannot be compared with PyTorch in float32, because it does not fit into memory.

    weight_bytes: of the export. built: the module in float32 is there already. narrow: the export is no float32, and ONNX
    Runtime is given two graphs in float32 beside it.
    """
    free = free_bytes(torch.device("cpu"))
    whole = torch.float32.itemsize * sum(t.size for t in model.tensors())
    needed = weight_bytes + (0 if built else whole) + (2 * whole if narrow else 0)
    if free is not None and needed > free:
        raise UsageError(
            f"To verify {model.name} takes {size(needed)} of memory, for PyTorch in float32 and ONNX Runtime beside it, "
            f"and {size(free)} are free.",
            "export it without (--no-verify), or verify it on a larger machine, or a smaller one of its kind here "
            "(--set decoder.layers=2)",
        )


def demand(model: Model, dtype: torch.dtype, device: str | torch.device) -> None:
    """Raises `UsageError` where the weights do not fit what the device has free."""
    device = torch.device(device)
    free = None if device.type == "meta" else free_bytes(device)
    parameters = count_parameters(model).total
    needed = parameters * dtype.itemsize
    if free is not None and needed > free:
        raise UsageError(
            f"{model.name} has {parameters:,} parameters: {size(needed)} in {str(dtype).removeprefix('torch.')}, "
            f"and {size(free)} are free",
            "make it smaller (--set decoder.layers=2), or a machine larger; `archspec count` needs no memory at all",
        )
