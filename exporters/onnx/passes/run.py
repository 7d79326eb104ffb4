"""The words in ONNX, as a graph for ONNX Runtime wants them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import onnx_ir as ir

from archspec.ops.base import Op, walk
from archspec.ops.moe import Moe

from ..heads import X, plain
from ..words import OnnxRun
from .mixture import kernel_of, mixed, unfit


class OrtRun(OnnxRun):
    """The standard form of every word but one, and a record of what passes look for.

    A mixture of experts is a kernel's, where there is one, from the start: a layer may have hundreds of bodies, and none of them is
    walked in vain.
    """

    @cached_property
    def sums(self) -> dict[ir.Value, tuple[ir.Value, ir.Value]]:
        """Two tensors of one shape, by their sum."""
        return {}

    @cached_property
    def mixtures(self) -> list[tuple[str, str | None]]:
        """Each mixture's kernel, and why it is not used."""
        return []

    @cached_property
    def operations(self) -> Mapping[str, Op]:
        """Path, with a dot at its end -> operation."""
        return {path: op for path, op, _ in walk(self.model)}

    def add(self, a: X, b: X) -> ir.Value:
        y = super().add(a, b)
        self.sums[y] = plain(a), plain(b)
        return y

    def experts(self, x: X, weights: X, chosen: X, on_input: bool, body: Callable[[X], X]) -> ir.Value:
        *_, at = self.routings[plain(chosen)]
        moe = self.operations[at]
        assert isinstance(moe, Moe)
        reason = unfit(self, moe, at)
        self.mixtures.append((kernel_of(self, moe, at), reason))
        if reason:
            return super().experts(x, weights, chosen, on_input, body)
        return mixed(self, moe, at, plain(x), plain(weights), plain(chosen))
