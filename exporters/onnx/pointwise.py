"""The words that leave every token to itself: products, norms, heads, arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from archspec.ops.bind import LeafRef
from archspec.ops.leaves import Linear, Vector
from archspec.ops.words import Activation

from . import heads, norms
from .activations import activated, blended, xielu
from .heads import Heads, X, apart, gathered, plain
from .stored import Stored
from .weights import Reading


class Pointwise(Stored):
    """These words, over the leaves of a model."""

    # ---- weights

    def by_head(self, x: X, w: LeafRef, heads: int) -> Heads:
        # not the weight is transposed: of what hangs on weights alone ONNX Runtime keeps a copy
        g, last_two = self.g, [0, 1, 3, 2]
        y = g.op("MatMul", self.parts(w, heads), g.op("Transpose", apart(g, x), perm=last_two))  # B H O T
        return gathered(g, g.op("Transpose", y, perm=last_two), heads)

    def back_by_head(self, x: X, w: LeafRef, heads: int) -> Heads:
        return gathered(self.g, self.g.op("MatMul", apart(self.g, x), self.parts(w, heads)), heads)

    def parts(self, w: LeafRef, heads: int) -> ir.Value:
        """H O I: a linear's weight as it is stored."""
        assert isinstance(w.leaf, Linear)
        path, rows = self.stored_path(f"{w.path}.weight"), w.leaf.out
        assert path not in self.storage.quantised
        read = self.rows(path)
        tensor = (path, self.g.dtype, (heads, rows // heads, w.leaf.inp))
        return self.g.weights([tensor], Reading(rows, lambda start, stop: (read(start, stop),)))[0]

    # ---- norms

    def rms_norm(self, x: X, w: LeafRef | None, eps: float, shift: float) -> X:
        return norms.rms_norm(self.g, x, self.norm_vector(w, shift), eps)

    def layer_norm(self, x: X, w: LeafRef | None, b: LeafRef | None, eps: float, shift: float, outside: bool) -> X:
        return norms.layer_norm(self.g, x, self.norm_vector(w, shift), self.norm_vector(b), eps, outside)

    def l2_norm(self, x: X, eps: float) -> X:
        return norms.l2_norm(self.g, x, eps)

    # ---- shape

    def split_heads(self, x: X, heads: int, width: int) -> Heads:
        return Heads(plain(x), heads)

    def merge_heads(self, x: X) -> ir.Value:
        return heads.merged(self.g, x)

    def split(self, x: X, widths: tuple[int, ...]) -> Sequence[X]:
        return heads.split(self.g, x, widths)

    def concat(self, a: X, b: X) -> Heads:
        return heads.concat(self.g, a, b)

    # ---- elementwise

    def add(self, a: X, b: X) -> ir.Value:
        return self.g.op("Add", plain(a), plain(b))

    def mul(self, a: X, b: X) -> ir.Value:
        return self.g.op("Mul", plain(a), plain(b))

    def mul_heads(self, x: X, g: X) -> X:
        each = self.g.op("Unsqueeze", plain(g), self.g.const([3]))  # B T H 1
        if isinstance(x, Heads):
            return heads.like(self.g, x, self.g.op("Mul", heads.rows(self.g, x), each))
        return self.g.op("Mul", x, self.g.op("Transpose", each, perm=[0, 2, 1, 3]))

    def add_heads(self, x: X, w: LeafRef) -> ir.Value:
        assert isinstance(w.leaf, Vector)
        (h,) = w.leaf.shape
        each = self.g.op("Reshape", plain(x), self.g.const([0, 0, h, -1]))  # B T H C
        y = self.g.op("Add", each, self.vector(w.path, (h, 1)))
        return self.g.op("Reshape", y, self.g.const([0, 0, -1]))

    def weigh(self, x: X, w: LeafRef, shift: float) -> X:
        by = self.norm_vector(w, shift)
        assert by is not None
        return heads.like(self.g, x, self.g.op("Mul", heads.rows(self.g, x), by))

    def blend(self, x: X, f: X, w: LeafRef, temperature: float, floor: float) -> ir.Value:
        assert isinstance(w.leaf, Vector)
        at = self.g.op("Div", self.vector(w.path, w.leaf.shape), self.g.number(temperature))
        return blended(self.g, plain(x), plain(f), at, floor)

    def scale(self, x: X, by: float) -> X:
        if isinstance(x, Heads):
            return Heads(self.g.op("Mul", x.packed, self.g.number(by)), x.heads)
        return self.g.op("Mul", x, self.g.number(by))

    def shift(self, x: X, by: float) -> ir.Value:
        return self.g.op("Add", plain(x), self.g.number(by))

    def clamp(self, x: X, low: float | None, high: float | None) -> ir.Value:
        bounds = [self.g.number(b) if b is not None else None for b in (low, high)]
        if self.g.dtype != ir.DataType.BFLOAT16:
            return self.g.op("Clip", plain(x), *bounds)
        y = plain(x)  # ONNX Runtime has no Clip of bfloat16
        for kind, bound in zip(("Max", "Min"), bounds, strict=True):
            y = y if bound is None else self.g.op(kind, y, bound)
        return y

    def softcap(self, x: X, cap: float) -> ir.Value:
        bound = self.g.number(cap)
        return self.g.op("Mul", self.g.op("Tanh", self.g.op("Div", plain(x), bound)), bound)

    def activate(self, x: X, kind: Activation) -> ir.Value:
        return activated(self.g, plain(x), kind)

    def xielu(self, x: X, positive: LeafRef, negative: LeafRef) -> ir.Value:
        p, n = (self.vector(w.path, (1,)) for w in (positive, negative))
        return xielu(self.g, plain(x), p, n)

    def dropout(self, x: X, p: float) -> X:
        return x
