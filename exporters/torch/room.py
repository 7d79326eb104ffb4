"""Is there room on a device? Said before anything is allocated: a count is exact, and a machine that thrashes says nothing."""

from __future__ import annotations

import torch

from archspec.compiler.parameters import count_parameters
from archspec.errors import UsageError
from archspec.exporters.room import free_memory
from archspec.exporters.units import size
from archspec.ops.model import Model


def free_bytes(device: torch.device) -> int | None:
    """Bytes that can still be allocated on a device; None where nothing says so."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return free_memory()


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
