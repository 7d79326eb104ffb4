"""What a model must do, whatever runs it: bytes that a step reads, FLOPs that a prompt takes."""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir

from archspec.compiler.count import Counts, count
from archspec.compiler.precision import storage
from archspec.compiler.reads import bytes_read
from archspec.exporters.runtime.folder import ExportFolder
from archspec.ops.head import LmHead
from archspec.ops.leaves import Linear

from .turns import WARM, Plan

#: Bytes of a token: its number and its mask, 64 bits each. Of a number that a head gives.
TOKEN, FLOAT = 16, 4


class Work:
    """The work of an exported folder. Bytes are those of the numbers that it holds."""

    def __init__(self, folder: ExportFolder) -> None:
        self.model, self._context = folder.model, folder.spec.context_length
        self._storage = storage(folder.model, folder.precision)
        graph = ir.load(folder.main).graph
        result = graph.outputs[0]
        kept = [v for v in graph.inputs if str(v.name).startswith("past.")]
        self._generates = folder.generates
        self._number = (kept or [result])[0].dtype or ir.DataType.FLOAT
        shape = result.shape
        assert shape is not None
        self.last_only = isinstance(self.model.head, LmHead) and shape[1] == 1
        #: Is there one row for a whole text, and how wide is a row?
        self._pooled, self._width = len(shape) == 2, int(str(shape[-1]))

    @property
    def dtype(self) -> str:
        """What it computes in, as PyTorch calls it: that of its cache, or else of its result."""
        return {ir.DataType.FLOAT16: "float16", ir.DataType.BFLOAT16: "bfloat16"}.get(self._number, "float32")

    def step_bytes(self, past: int, batch: int, source: int = 0) -> int:
        """Bytes that one step reads: weights once for the batch, and each row's cache of `past` tokens and its own."""
        return self.weight_bytes(batch) + self.cache_bytes(past, batch, source)

    def weight_bytes(self, batch: int) -> int:
        """Bytes of weights that a step of `batch` tokens reads, where every expert is as likely as another."""
        return bytes_read(self.model, self._storage, batch, first=not self._generates)

    def cache_bytes(self, past: int, batch: int, source: int = 0) -> int:
        """Bytes of keys and values."""
        counts = self._counts(batch, 1, past, source)
        return int(counts.cache_bytes // counts.width * self._number.itemsize)

    def turn_bytes(self, plan: Plan, context: int) -> int:
        """Bytes that a turn holds at once beside the weights, at the least: the texts, their caches, and what one linear reads and
        gives, or the head.
        """
        prompt, source = self.lengths(plan, context)
        rows, caches = plan.batch * context, 0
        if plan.generates:
            rows = plan.rows(context)
            caches = self.cache_bytes(prompt + WARM + plan.new - 1, plan.batch, source)
        linear = rows * sum(self.product()) * self._number.itemsize
        head = (plan.batch if self.last_only or self._pooled else rows) * self._width * FLOAT
        return int(plan.batch * context * TOKEN + caches + max(linear, head))

    def lengths(self, plan: Plan, context: int) -> tuple[int, int]:
        """(tokens of the prompt, tokens of the source)"""
        if self.model.form != "encoder_decoder":
            return context, 0
        return 1 if plan.generates else context, context

    def prompt_flops(self, length: int, batch: int, source: int = 0) -> int:
        """FLOPs of reading `length` tokens, of pairs that the masks let through; the head's for the tokens that it is asked for."""
        flops = dict(self._counts(batch, length, 0, source).causal)
        if self.last_only:
            flops["head"] = flops.get("head", 0) // length
        return sum(flops.values())

    def product(self) -> tuple[int, int]:
        """(in, out) of the linear that takes the most FLOPs, the head left out."""
        sizes: Counter[tuple[int, int]] = Counter()
        for tensor in self.model.tensors():
            leaf = tensor.leaf
            if isinstance(leaf, Linear) and tensor.path.endswith(".weight") and not tensor.path.startswith("head."):
                sizes[leaf.inp, leaf.out] += leaf.inp * leaf.out
        return sizes.most_common(1)[0][0]

    def _counts(self, batch: int, length: int, past: int, source: int) -> Counts:
        return count(
            self.model,
            context_length=self._context,
            batch=batch,
            length=length,
            past=past,
            source_length=source or None,
        )
