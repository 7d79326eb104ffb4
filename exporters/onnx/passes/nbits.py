"""Products with matrices in blocks as `com.microsoft.MatMulNBits`, token tables in blocks as `GatherBlockQuantized`.

Both read rows as they are read from a checkpoint, (O, across, bytes of a block): a table that is the head's matrix too is one run
of bytes in the file, and none of it is made into floats but the rows that are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ..blockwise import Matrix, packed
from ..graph import Array, Builder
from ..weights import Reading
from ..words import OnnxRun
from .fusion import Fusion

#: The CPU's kernel rounds activations to 8 bits in blocks of their own and adds in integers: some 3 times as fast as one that does
#: not (level 0), for which see docs/performance.md. CUDA's computes in the type of its input whatever is said here.
INTEGERS = 4
UINT8 = ir.DataType.UINT8


def fuse_products(run: OnnxRun) -> Fusion | None:
    """Every product with a matrix in blocks."""
    if not run.quantised_products:
        return None
    g, stacks = run.g, dict[tuple[str, ...], dict[str, Matrix]]()
    for found in run.quantised_products.values():
        stacks.setdefault(found.matrix.parts, {})[found.matrix.name] = found.matrix
    for stack in stacks.values():  # the file has them in this order: experts of one stack, which are read together
        for matrix in stack.values():
            rows_of(g, matrix)
    for y, found in run.quantised_products.items():
        node, m = y.producer(), found.matrix
        assert node is not None
        options = {"K": m.inp, "N": m.out, "bits": m.blocks.bits, "block_size": m.blocks.size}
        # ONNX Runtime 1.31 widens products of half precision that stand alone, and then takes integers without their scales
        options["accuracy_level"] = 0 if g.half else INTEGERS
        with g.before(node):
            fused = g.op("com.microsoft.MatMulNBits", g.now(found.x), *rows_of(g, m), **options)
        g.swap(y, fused)
    return Fusion("MatMulNBits", "products with matrices in blocks", len(run.quantised_products))


def fuse_lookups(run: OnnxRun) -> Fusion | None:
    """Every look into a table in blocks."""
    if not run.quantised_lookups:
        return None
    g = run.g
    for found in run.quantised_lookups:
        node, m = found.y.producer(), found.matrix
        assert node is not None
        codes, scales, *zeros = rows_of(g, m)
        width = m.inp * m.blocks.bits // 8
        table = g.view(codes, f"{codes.name}.rows", UINT8, (m.out, width))
        options = {"bits": m.blocks.bits, "block_size": m.blocks.size, "gather_axis": 0, "quantize_axis": 1}
        with g.before(node):
            fused = g.op("com.microsoft.GatherBlockQuantized", table, g.now(found.ids), scales, *zeros, **options)
        g.swap(found.y, fused)
    return Fusion("GatherBlockQuantized", "tables in blocks", len(run.quantised_lookups))


def rows_of(g: Builder, m: Matrix) -> Sequence[ir.Value]:
    """Codes (O, across, bytes of a block), scales (O, across), and zeros (O, bytes of a row of them) where a block has one."""
    dtype, bits = g.dtype, m.blocks.bits

    def rows(start: int, stop: int) -> Sequence[Array]:
        codes, scales, zeros = m.rows(start, stop, dtype)
        if bits == 8:
            return codes, scales, zeros
        even = np.pad(zeros, ((0, 0), (0, m.across % 2)))
        return packed(codes), scales, packed(even)

    block, row = m.blocks.size * bits // 8, -(-m.across * bits // 8)
    tensors = [
        (f"{m.name}.blocks", UINT8, (m.out, m.across, block)),
        (f"{m.name}.block_scales", dtype, (m.out, m.across)),
        (f"{m.name}.block_zeros", UINT8, (m.out, row)),
    ]
    return g.weights(tensors[:2] if m.blocks.symmetric else tensors, Reading(m.out, rows))
