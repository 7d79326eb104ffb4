"""Where half precision is not enough."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

_HALF = (torch.bfloat16, torch.float16)


def full(x: Tensor) -> Tensor:
    """x in float32 where it is half: what statistics, softmax and routing are taken of."""
    return x.float() if x.dtype in _HALF else x


def autocast_dtype(x: Tensor) -> torch.dtype | None:
    """What an autocast around this call makes of x in a product; None: nothing."""
    kind = x.device.type
    if x.is_meta or x.dtype == torch.float64 or not torch.is_autocast_enabled(kind):
        return None
    return torch.get_autocast_dtype(kind)


def no_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """Inside, products with x are in its own dtype."""
    return nullcontext() if autocast_dtype(x) is None else torch.autocast(x.device.type, enabled=False)
