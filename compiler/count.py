"""The count report: parameters, FLOPs, cache and memory of one model at one batch and length, each figure with its convention."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from archspec.errors import UsageError
from archspec.ops.block import Stack
from archspec.ops.embedding import LearnedPositions
from archspec.ops.model import Model
from archspec.ops.record import Record

from .fits import Fit, bytes_of
from .flops import Flops, Lengths, count_flops
from .memory import Training, training_memory
from .parameters import CacheRun, Parameters, cache_runs, count_parameters, repeated
from .poly import Poly
from .precision import BYTES, FP32, Precision, Storage, storage

#: The length that is counted where a spec states no context.
DEFAULT_LENGTH = 1024
#: What is in memory while training.
TRAINED = ("gradients", "optimizer", "activations", "activations_checkpointed", "training", "training_checkpointed")


class Counts(Record):
    """All numbers of a model for one call: `length` new tokens after `past` ones, in a batch.

    Parameters are unique (tied once). FLOPs: one multiply-add is 2; `dense` takes every query-key pair, `causal` the pairs
    that a mask lets through. Training is 3 × forward. Bytes are plain integers, of what an export in a precision stores.
    """

    name: str
    form: str
    lengths: Lengths
    storage: Storage
    parameters: Parameters
    flops: Flops
    caches: tuple[CacheRun, ...]
    #: Bytes of the weights as an export stores them: each tensor once, and none of what aligns them in a file.
    weight_bytes: int
    #: None in int8 and int4, which nothing is trained in, and after a past, which no training has.
    training: Training | None
    #: Tokens that a sequence may have; None: any number.
    context: int | None

    # ---------------------------------------------------------------------------------------------------------- FLOPs

    @cached_property
    def dense(self) -> dict[str, int]:
        """FLOPs of the forward call by component, every query-key pair counted."""
        value = self.flops.value(self.lengths)
        return {c: p.at(value) for c, p in self.flops.dense.items()}

    @cached_property
    def causal(self) -> dict[str, int]:
        """FLOPs of the forward call by component, only the pairs that the masks let through."""
        value = self.flops.value(self.lengths)
        return {c: p.at(value) for c, p in self.flops.causal.items()}

    @cached_property
    def uncounted(self) -> dict[str, int]:
        """Elements that pass through what is not counted as FLOPs, by kind."""
        value = self.flops.value(self.lengths)
        return {c: p.at(value) for c, p in sorted(self.flops.uncounted.items())}

    @property
    def formula(self) -> dict[str, Poly]:
        """The dense and the causal total as polynomials in B, T, P and M."""
        return {k: sum(f.values(), Poly()) for k, f in (("dense", self.flops.dense), ("causal", self.flops.causal))}

    # ---------------------------------------------------------------------------------------------------------- bytes

    @property
    def precision(self) -> Precision:
        return self.storage.precision

    @property
    def width(self) -> int:
        """Bytes of one number that is computed in, which caches and activations are of."""
        return BYTES[self.precision.compute]

    @property
    def bits(self) -> float:
        """Bits a parameter, scales and all."""
        return 8 * self.weight_bytes / self.parameters.total

    def run_bytes(self, run: CacheRun) -> int:
        """Bytes of the cache of one layer of a run."""
        n = self.lengths
        return self.width * run.elements(n.batch, n.past + n.length, n.source)

    @property
    def cache_bytes(self) -> int:
        """Bytes of all caches after the call, P + T tokens (and M source tokens) in each sequence."""
        return sum(run.count * self.run_bytes(run) for run in self.caches)

    @property
    def memory(self) -> dict[str, int | None]:
        """Bytes by what they are for; of training, None where there is none."""
        t, weights = self.training, self.weight_bytes
        found: dict[str, int | None] = {"weights": weights, "inference": weights + self.cache_bytes}
        if t is None:
            return found | dict.fromkeys(TRAINED)
        whole = weights + t.total
        least = whole - t.activations + t.checkpointed
        step = (t.gradients, t.optimizer, t.activations, t.checkpointed, whole, least)
        return found | dict(zip(TRAINED, step, strict=True))

    def at(self, **lengths: int) -> Counts:
        """The same model at other `Lengths`, which it must have; without training, whose memory hangs on them."""
        return self.replaced(lengths=self.lengths.replaced(**lengths), training=None)

    def fits(self, size: int | str) -> Fit:
        """Does it fit into so many bytes, and how much would? size: bytes, or as `24GiB`. Raises UsageError for what is no size."""
        return Fit(bytes_of(size) if isinstance(size, str) else size, self)

    # ----------------------------------------------------------------------------------------------------------- JSON

    def record(self) -> dict[str, Any]:
        """The report as plain data. Keys are stable; docs/counting.md documents them."""
        p, n = self.parameters, self.lengths
        dense, causal = sum(self.dense.values()), sum(self.causal.values())
        return {
            "name": self.name,
            "form": self.form,
            "batch": n.batch,
            "length": n.length,
            "past": n.past,
            "source_length": n.source,
            "precision": self.precision.record(),
            "parameters": {
                "total": p.total,
                "embedding": p.embedding,
                "non_embedding": p.non_embedding,
                "active": p.active,
                "untied": p.untied,
                "by_component": p.by_component,
                "by_layer": [
                    {
                        "stack": r.stack,
                        "first": r.first,
                        "last": r.last,
                        "total": r.total,
                        "shared": r.shared,
                        **r.by_component,
                    }
                    for r in p.layers
                ],
            },
            "flops": {
                "forward": {"dense": dense, "causal": causal},
                "macs": {"dense": dense // 2, "causal": causal // 2},
                "training": None if n.past else 3 * dense,
                "by_component": {c: {"dense": d, "causal": self.causal[c]} for c, d in self.dense.items()},
                "formula": {k: str(f) for k, f in self.formula.items()},
            },
            "uncounted_elements": self.uncounted,
            "kv_cache": {
                "bytes": self.cache_bytes,
                "by_layer": [
                    {"stack": r.stack, "first": r.first, "last": r.last, "bytes": self.run_bytes(r)}
                    for r in self.caches
                ],
            },
            "memory": self.memory,
        }


def count(
    model: Model,
    *,
    context_length: int | None = None,
    batch: int = 1,
    length: int | None = None,
    past: int = 0,
    source_length: int | None = None,
    precision: Precision = FP32,
) -> Counts:
    """Count a model.

    Args:
        context_length: of the spec; the length that is counted by default (1,024 where a spec has none).
        batch: sequences.
        length: new tokens in each; by default what of the context `past` leaves.
        past: tokens already in the cache.
        source_length: tokens of the encoder's input in an encoder-decoder; = context_length.
        precision: what an export stores and computes in: the bytes of weights, cache and activations.

    Raises:
        UsageError: a length that is not there to count: past the rows of a position table, or a past without a cache; or a
            pattern of `precision.keep` that no weight has a name for.
    """
    whole = context_length or DEFAULT_LENGTH
    if length is None:
        length = max(1, whole - past) if past else whole
    if source_length and model.form != "encoder_decoder":
        raise UsageError(f"{model.name} has no encoder beside a decoder", "leave --source-length out")
    source = (source_length or whole) if model.form == "encoder_decoder" else 0
    _check(model, length, past, source)
    ends = [n for n in (context_length, position_rows(model.main[1])) if n]
    lengths, stored = Lengths(batch, length, past, source), storage(model, precision)
    # a pattern may name one of several equal layers
    tensors = ((t, 1) for t in model.tensors()) if precision.keep else repeated(model)
    return Counts(
        name=model.name,
        form=model.form,
        lengths=lengths,
        storage=stored,
        parameters=count_parameters(model),
        flops=count_flops(model),
        caches=cache_runs(model),
        weight_bytes=sum(times * stored.bytes_of(t) for t, times in tensors),
        training=None if precision.blocks or past else training_memory(model, lengths, BYTES[precision.compute]),
        context=min(ends, default=None),
    )


def position_rows(stack: Stack) -> int | None:
    """The positions that a stack has rows for; None: any number."""
    position = stack.embedding.position
    return position.rows - position.offset if isinstance(position, LearnedPositions) else None


def _check(model: Model, length: int, past: int, source: int) -> None:
    if past and model.form == "encoder":
        raise UsageError("an encoder keeps no past", "leave --past out")
    for name, stack in model.stacks().items():
        rows = position_rows(stack)
        asked = source if stack.embedding.stream == "source" else past + length
        if rows is not None and asked > rows:
            raise UsageError(
                f"{asked:,} tokens do not fit the {name}'s learned positions: its table has {rows:,} rows",
                f"--source-length at most {rows:,}"
                if name != model.main[0]
                else f"--length at most {rows - past:,}"
                if past < rows
                else f"--past at most {max(rows - length, 0):,}",
            )
