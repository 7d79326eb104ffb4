"""Arrays and tensors: the same numbers, and the same memory where it can be."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

from archspec.exporters.torch.arrays import array_of, tensor_of

DTYPES = [(torch.float32, np.float32), (torch.float16, np.float16), (torch.bfloat16, ml_dtypes.bfloat16)]


@pytest.mark.parametrize(("theirs", "ours"), DTYPES)
def test_numbers_go_there_and_back_in_the_same_memory(theirs: torch.dtype, ours: type[np.generic]) -> None:
    array = np.array([[1.5, -2.0, 0.25], [3.0, 0.0, -64.0]], ours)
    tensor = tensor_of(array.T)
    assert tensor.dtype == theirs
    assert tensor.tolist() == [[1.5, 3.0], [-2.0, 0.0], [0.25, -64.0]]
    back = array_of(torch.nn.Parameter(tensor))
    assert back.dtype == ours
    back[0, 1] = 7
    assert array[1, 0] == 7


def test_what_torch_cannot_see_is_copied() -> None:
    """Memory that may not be written to, and rows in reverse."""
    array = np.arange(3.0)
    assert tensor_of(array[::-1]).tolist() == [2.0, 1.0, 0.0]
    array.flags.writeable = False
    tensor_of(array)[0] = 5
    assert array[0] == 0
