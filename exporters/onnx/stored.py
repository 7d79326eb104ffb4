"""What a model stores, and the words that read it: each weight enters a graph once, by its path, and is read when it is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from archspec.compiler.precision import Storage
from archspec.ops.bind import LeafRef
from archspec.ops.leaves import Linear, Table, Vector
from archspec.ops.model import Model

from . import blockwise, experts
from .blockwise import Matrix, QuantisedLookup, QuantisedProduct
from .graph import Array, Builder
from .heads import X, plain
from .weights import Reader, Weights, concatenated, whole


@dataclass(frozen=True)
class Product:
    """x Wᵀ + b as it stands in a graph, for passes that put several into one. `weight` and `bias` are paths of stored tensors.

    `raw` is x Wᵀ.
    """

    x: ir.Value
    weight: str
    bias: str | None
    inp: int
    out: int
    raw: ir.Value
    y: ir.Value


class Stored:
    """The leaves of a model in a graph. `weights` gives a stored tensor by its path, as it is stored: (out, in) for a linear."""

    def __init__(self, builder: Builder, model: Model, weights: Weights, storage: Storage) -> None:
        self.g, self.model, self.weights, self.storage = builder, model, weights, storage
        self.tables = {t.path for t in model.tensors() if isinstance(t.leaf, Table)}
        #: Token tables that are a head's matrix too.
        self.shared = self.tables & {stored for path, stored in model.ties.items() if path.startswith("head.")}
        #: The expert whose body is being walked.
        self.expert = 0
        #: Every linear that is neither an expert's nor the token table, in order, by its own path.
        self.products: dict[str, Product] = {}
        #: Those that read something else as well.
        self.reread: set[str] = set()
        #: Every product with a matrix in blocks, by what it gives, and every look into a table in blocks.
        self.quantised_products: dict[ir.Value, QuantisedProduct] = {}
        self.quantised_lookups: list[QuantisedLookup] = []

    def linear(self, x: X, w: LeafRef) -> ir.Value:
        leaf = w.leaf
        assert isinstance(leaf, Linear)
        stored, x = self.stored_path(f"{w.path}.weight"), plain(x)
        if leaf.experts is not None:
            return self.expert_linear(x, leaf, stored, f"{w.path}.bias")
        if stored in self.tables:
            y = self.tied_linear(x, leaf, stored)
            return self.g.op("Add", y, self.vector(f"{w.path}.bias", (leaf.out,))) if leaf.bias else y
        y = raw = self.product(x, stored, (leaf.inp, leaf.out), self.rows(stored), stored in self.storage.quantised)
        bias = self.stored_path(f"{w.path}.bias") if leaf.bias else None
        if bias:
            y = self.g.op("Add", y, self.vector(bias, (leaf.out,)))
        if w.path in self.products:
            self.reread.add(w.path)
        self.products.setdefault(w.path, Product(x, stored, bias, leaf.inp, leaf.out, raw, y))
        return y

    def stored_path(self, path: str) -> str:
        """Where the tensor of this path is stored: there, or where the one is that it is tied to."""
        return self.model.ties.get(path, path)

    def rows(self, path: str) -> Reader:
        """A stored tensor, as it is stored."""
        return lambda start, stop: self.weights(path, start, stop)

    def product(
        self, x: ir.Value, name: str, shape: tuple[int, int], read: Reader, quantised: bool, *parts: str
    ) -> ir.Value:
        """... I -> ... O: x times the weight `name` of this shape (I, O), of which `read` gives rows as (O, I).

        quantised: the weight is in blocks. parts: the stored tensors it is made of, if not the one of its name.
        """
        if quantised:
            return self.quantised_product(x, self.matrix(name, shape[1], shape[0], read, *parts))
        return self.g.op("MatMul", x, self.g.weight(name, shape, read, transposed=True))

    def matrix(self, name: str, out: int, inp: int, read: Reader, *parts: str) -> Matrix:
        assert self.storage.precision.blocks is not None
        return Matrix(name, out, inp, read, self.storage.precision.blocks, parts or (name,))

    def quantised_product(self, x: ir.Value, matrix: Matrix) -> ir.Value:
        y = blockwise.product(self.g, x, matrix)
        self.quantised_products[y] = QuantisedProduct(x, matrix, y)
        return y

    def side_by_side(self, products: Sequence[Product], name: str) -> ir.Value:
        """Several linears of one x as a single one, their results along the last axis. `name`: of the weight they make together."""
        out = sum(p.out for p in products)

        def bias() -> Array:
            return np.concatenate([self.weights(p.bias) if p.bias else np.zeros(p.out, np.float32) for p in products])

        weight = concatenated([(p.out, self.rows(p.weight)) for p in products])
        quantised = products[0].raw in self.quantised_products
        for p in products:
            self.quantised_products.pop(p.raw, None)  # nothing reads it any longer
        parts = [p.weight for p in products]
        y = self.product(products[0].x, f"{name}.weight", (products[0].inp, out), weight, quantised, *parts)
        if not any(p.bias for p in products):
            return y
        return self.g.op("Add", y, self.g.weight(f"{name}.bias", (out,), whole(bias)))

    def expert_linear(self, x: ir.Value, leaf: Linear, weight: str, bias: str) -> ir.Value:
        """The linear of the expert whose body is being walked."""
        assert leaf.experts is not None
        stored, n, rows = self.stored_path(bias), leaf.experts, self.rows(weight)
        if weight in self.storage.quantised:
            y = self.quantised_product(x, self.stack(weight, n, leaf.out, leaf.inp, rows)[self.expert])
        else:
            matrices = experts.weights_of(self.g, weight, n, (leaf.inp, leaf.out), rows, transposed=True)
            y = self.g.op("MatMul", x, matrices[self.expert])
        if not leaf.bias:
            return y
        vectors = experts.weights_of(self.g, stored, n, (leaf.out,), self.rows(stored))
        return self.g.op("Add", y, vectors[self.expert])

    def stack(self, name: str, experts: int, out: int, inp: int, read: Reader) -> list[Matrix]:
        """A matrix in blocks for each expert. They enter the graph, and the file, one after the other, as they are read."""

        def one(expert: int) -> Matrix:
            first = expert * out
            return self.matrix(f"{name}.{expert}", out, inp, lambda a, b: read(first + a, first + b), name)

        def make() -> list[Matrix]:
            matrices = [one(e) for e in range(experts)]
            for matrix in matrices:
                blockwise.in_by_out(self.g, matrix)
            return matrices

        return self.g.once(("experts", name), make)

    def tied_linear(self, x: ir.Value, leaf: Linear, table: str) -> ir.Value:
        """x times the token table, read as it lies: a Transpose node would be folded into a second copy of it."""
        g = self.g
        if table in self.storage.quantised:
            return self.quantised_product(x, self.matrix(table, leaf.out, leaf.inp, self.rows(table)))
        rows = g.op("Reshape", x, g.const([-1, leaf.inp]))
        y = g.op("Gemm", rows, self.rows_of(table, leaf.out, leaf.inp), transB=1)
        return g.op("Reshape", y, g.op("Concat", g.op("Shape", x, start=0, end=-1), g.const([leaf.out]), axis=0))

    def rows_of(self, path: str, rows: int, width: int) -> ir.Value:
        """A table as it is stored: rows width."""
        return self.g.weight(path, (rows, width), self.rows(path))

    def vector(self, path: str, shape: tuple[int, ...], shift: float = 0.0) -> ir.Value:
        """A vector by its path; what is stored is shift + w."""
        stored = self.stored_path(path)
        return self.g.weight(stored, shape, whole(lambda: self.weights(stored).reshape(shape) + shift))

    def embedding(self, ids: X, w: LeafRef, offset: int = 0) -> ir.Value:
        leaf, stored = w.leaf, self.stored_path(f"{w.path}.weight")
        assert isinstance(leaf, Table)
        rows = self.g.op("Add", plain(ids), self.g.const(offset)) if offset else plain(ids)
        if stored not in self.storage.quantised:
            return self.g.op("Gather", self.rows_of(stored, leaf.rows, leaf.width), rows, axis=0)
        matrix = self.matrix(stored, leaf.rows, leaf.width, self.rows(stored))
        y = blockwise.lookup(self.g, rows, matrix, transposed=stored in self.shared)
        self.quantised_lookups.append(QuantisedLookup(rows, matrix, y))
        return y

    def table(self, w: LeafRef) -> ir.Value:
        leaf, stored = w.leaf, self.stored_path(f"{w.path}.weight")
        assert isinstance(leaf, Table)
        return self.g.op("Unsqueeze", self.rows_of(stored, leaf.rows, leaf.width), self.g.const([0]))

    def norm_vector(self, w: LeafRef | None, shift: float = 0.0) -> ir.Value | None:
        """A norm's weight beside B T H C: (C) or (H C)."""
        if w is None:
            return None
        assert isinstance(w.leaf, Vector)
        shape = w.leaf.shape
        return self.vector(w.path, shape if len(shape) == 1 else (shape[0], shape[2]), shift)
