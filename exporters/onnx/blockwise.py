"""Weights in blocks of small integers as standard operators have them: `DequantizeLinear` before a product, numbers taken one by
one from a table.

A product's codes lie as (I, O), in which ONNX Runtime finds `DequantizeLinear` + `MatMul` and makes one kernel of them. A token
table that is the head's matrix too lies that way as well: its tokens are columns, which are read number by number, and nothing of
the table but those is ever made into floats. `Gather` has no type of 4 bits, so it is given bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from archspec.compiler.precision import Blocks

from .graph import Array, Builder
from .weights import Reader, Reading

UINT8, INT64 = ir.DataType.UINT8, ir.DataType.INT64


@dataclass(frozen=True)
class Matrix:
    """A stored matrix (out, inp) in blocks along `inp`, of which `read` gives rows."""

    name: str
    out: int
    inp: int
    read: Reader
    blocks: Blocks
    #: The stored tensors it is read from: one, which may be a stack of experts, or those that it puts side by side.
    parts: tuple[str, ...]

    @property
    def across(self) -> int:
        """Blocks in a row."""
        return self.inp // self.blocks.size

    def rows(self, start: int, stop: int, dtype: ir.DataType) -> tuple[Array, Array, Array]:
        """Codes (R, I), scales and zeros (R, across), of some rows. Raises WeightsError for what no integers stand for."""
        from .quantise import quantise_rows  # torch: loaded where numbers are read and not where graphs are made

        return quantise_rows(self.read(start, stop), self.blocks, dtype.numpy(), self.parts)


@dataclass(frozen=True)
class QuantisedProduct:
    """x times a matrix in blocks, as it stands in a graph."""

    x: ir.Value
    matrix: Matrix
    y: ir.Value


@dataclass(frozen=True)
class QuantisedLookup:
    """Rows of a table in blocks, as they stand in a graph."""

    ids: ir.Value
    matrix: Matrix
    y: ir.Value


def product(g: Builder, x: ir.Value, m: Matrix) -> ir.Value:
    """... I -> ... O"""
    codes, scales, *zeros = in_by_out(g, m)
    narrow = g.dtype == ir.DataType.BFLOAT16  # of which ONNX Runtime has no DequantizeLinear
    made = [codes, g.full(scales) if narrow else scales, *zeros]
    weight = g.op("DequantizeLinear", *made, axis=0, block_size=m.blocks.size)
    return g.op("MatMul", x, g.halved(weight) if narrow else weight)


def lookup(g: Builder, ids: ir.Value, m: Matrix, transposed: bool) -> ir.Value:
    """B T -> B T I: the rows of these numbers. `transposed`: the table lies as (I, O), as a product's."""
    codes, scales, *zeros = in_by_out(g, m) if transposed else out_by_in(g, m)
    step, along = (1, m.out) if transposed else (m.inp, 1)
    at = g.op("Unsqueeze", ids, g.const([2, 3]))  # B T 1 1
    each = _places(g, at, step, along, (m.across, m.blocks.size))
    block = _places(g, at, 1 if transposed else m.across, along, (m.across, 1))
    y = _taken(g, codes, each, m.blocks)
    if zeros:
        y = g.op("Sub", y, _taken(g, zeros[0], block, m.blocks))
    y = g.op("Mul", y, g.op("Gather", _flat(g, scales), block))
    return g.op("Reshape", y, g.const([0, 0, -1]))


def _places(g: Builder, at: ir.Value, step: int, along: int, shape: tuple[int, int]) -> ir.Value:
    """B T across n: at · step + (0, 1, 2, …) · along, where the numbers of a row stand."""
    first = at if step == 1 else g.op("Mul", at, g.const(step))
    return g.op("Add", first, g.const(np.arange(shape[0] * shape[1]).reshape(shape) * along))


def _flat(g: Builder, stored: ir.Value) -> ir.Value:
    """A stored tensor's numbers one after the other; of 4 bits, its bytes."""
    assert stored.dtype is not None
    assert stored.shape is not None
    count = int(np.prod(stored.shape.numpy()))
    if stored.dtype.itemsize < 1:
        return g.view(stored, f"{stored.name}.bytes", UINT8, (-(-count // 2),))
    return g.view(stored, f"{stored.name}.flat", stored.dtype, (count,))


def _taken(g: Builder, stored: ir.Value, at: ir.Value, blocks: Blocks) -> ir.Value:
    """Integers at these places, as floats."""
    assert stored.dtype is not None
    if stored.dtype.itemsize >= 1:
        return g.op("Cast", g.op("Gather", _flat(g, stored), at), to=g.dtype.value)
    byte = g.op("Cast", g.op("Gather", _flat(g, stored), g.op("Div", at, g.const(2))), to=INT64.value)
    place = g.op("Add", g.op("Mul", byte, g.const(2)), g.op("Mod", at, g.const(2)))
    halves = np.stack([np.arange(256) & 15, np.arange(256) >> 4], 1).reshape(-1)  # both numbers of every byte
    signed = stored.dtype == ir.DataType.INT4
    return g.op("Gather", g.number((halves ^ 8) - 8 if signed else halves), place)


def _kind(blocks: Blocks) -> ir.DataType:
    if blocks.bits == 4:
        return ir.DataType.INT4 if blocks.symmetric else ir.DataType.UINT4
    return ir.DataType.INT8 if blocks.symmetric else UINT8


def _signed(codes: Array, blocks: Blocks) -> Array:
    """Codes as their type has them: in symmetric blocks around 0, in two's complement of 4 or 8 bits."""
    return codes ^ np.uint8(blocks.middle) if blocks.symmetric else codes


def _tensors(
    g: Builder, m: Matrix, shape: Sequence[int], blocks: Sequence[int]
) -> list[tuple[str, ir.DataType, Sequence[int]]]:
    """Name, type and shape of codes, scales and, where a block has one, zeros."""
    kind = _kind(m.blocks)
    tensors = [(m.name, kind, shape), (f"{m.name}.scale", g.dtype, blocks), (f"{m.name}.zero_point", kind, blocks)]
    return tensors[:2] if m.blocks.symmetric else tensors


def in_by_out(g: Builder, m: Matrix) -> Sequence[ir.Value]:
    """Codes (I, O), scales (across, O), and zeros like them where a block has one."""
    dtype, packs = g.dtype, m.blocks.bits == 4

    def columns(start: int, stop: int) -> Sequence[Array]:
        codes, scales, zeros = m.rows(start, stop, dtype)
        return _signed(codes, m.blocks).view(np.int8 if m.blocks.symmetric else np.uint8), scales, zeros

    def pairs(start: int, stop: int) -> Sequence[Array]:
        codes, scales, zeros = m.rows(2 * start, 2 * stop, dtype)
        return _paired(_signed(codes, m.blocks)), _abreast(scales), _paired(zeros)

    def at_once(start: int, stop: int) -> Sequence[Array]:
        codes, scales, zeros = (part.T.reshape(1, -1) for part in m.rows(0, m.out, dtype))
        return packed(_signed(codes, m.blocks)), scales, packed(np.pad(zeros, ((0, 0), (0, zeros.size % 2))))

    if not packs:
        reading = Reading(m.out, columns, transposed=True)
    elif m.out % 2:  # two numbers of a byte stand in different rows
        reading = Reading(1, at_once)
    else:
        reading = Reading(m.out // 2, pairs, transposed=True, abreast=2)
    return g.weights(_tensors(g, m, (m.inp, m.out), (m.across, m.out)), reading)


def out_by_in(g: Builder, m: Matrix) -> Sequence[ir.Value]:
    """Codes (O, I), scales (O, across), and zeros like them, a byte each, where a block has one."""
    dtype, packs = g.dtype, m.blocks.bits == 4

    def rows(start: int, stop: int) -> Sequence[Array]:
        codes, scales, zeros = m.rows(start, stop, dtype)
        codes = _signed(codes, m.blocks)
        return packed(codes) if packs else codes.view(np.int8 if m.blocks.symmetric else np.uint8), scales, zeros

    codes, scales, *zeros = _tensors(g, m, (m.out, m.inp), (m.out, m.across))
    return g.weights([codes, scales, *((name, UINT8, shape) for name, _, shape in zeros)], Reading(m.out, rows))


def _paired(numbers: Array) -> Array:
    """(2r, n) below 16 -> (r, n) bytes: two rows side by side."""
    both: Array = numbers[0::2] | (numbers[1::2] << 4)
    return both


def _abreast(scales: Array) -> Array:
    """(2r, n) floats -> (r, n) of twice the size: two rows side by side."""
    both: Array = np.ascontiguousarray(scales.reshape(-1, 2, scales.shape[1]).swapaxes(1, 2))
    joined: Array = both.view(f"u{2 * scales.itemsize}")[..., 0]
    return joined


def packed(codes: Array) -> Array:
    """uint8 (..., 2n) below 16 -> uint8 (..., n): two a byte, the first one in its lower half."""
    pairs = np.ascontiguousarray(codes).view("<u2")
    both: Array = ((pairs | (pairs >> 4)) & 0xFF).astype(np.uint8)
    return both
