"""numpy's arrays as torch's tensors and back: the same numbers, and where it can be the same memory."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import Tensor

Array = np.ndarray[Any, Any]


def tensor_of(array: Array) -> Tensor:
    """An array as a tensor. What torch cannot see as it lies, because it may not be written to or runs backwards, is copied."""
    if not array.flags.writeable or any(step < 0 for step in array.strides):
        array = array.copy()
    if array.dtype == ml_dtypes.bfloat16:  # numpy's own types have none of it
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def array_of(tensor: Tensor) -> Array:
    """A tensor as an array."""
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        halves: Array = tensor.view(torch.uint16).numpy()
        return halves.view(ml_dtypes.bfloat16)
    array: Array = tensor.numpy()
    return array
