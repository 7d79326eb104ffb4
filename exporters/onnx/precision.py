"""In what numbers a graph computes, and in what numbers its weights are stored."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from archspec.ops.record import Record

Compute = Literal["fp32", "fp16", "bf16"]

DTYPES: dict[Compute, ir.DataType] = {
    "fp32": ir.DataType.FLOAT,
    "fp16": ir.DataType.FLOAT16,
    "bf16": ir.DataType.BFLOAT16,
}


class Precision(Record):
    """`compute`: of activations, caches and the weights that are not quantised."""

    compute: Compute = "fp32"

    @property
    def dtype(self) -> ir.DataType:
        return DTYPES[self.compute]


FP32 = Precision()
