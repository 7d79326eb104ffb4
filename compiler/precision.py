"""In what numbers a model computes, and in what numbers its weights are stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

from archspec.diagnostics import either, nearest
from archspec.errors import UsageError
from archspec.ops.base import Tensor, walk
from archspec.ops.latent import LatentAttention
from archspec.ops.leaves import Linear, Table
from archspec.ops.model import Model
from archspec.ops.moe import Moe
from archspec.ops.record import Record

Compute = Literal["fp32", "fp16", "bf16"]
Name = Literal["fp32", "fp16", "bf16", "int8", "int4"]

#: Bytes of one number.
BYTES: dict[Compute, int] = {"fp32": 4, "fp16": 2, "bf16": 2}
BLOCK = 32
SIZES = (16, 32, 64, 128, 256)


class Blocks(Record):
    """Weights as small integers: w ≈ scale · (code - zero), with a scale, and a zero where not `symmetric`, for each `size` weights
    of a row. A row is what meets one output: blocks run along a linear's input, and along a token's vector.
    """

    bits: Literal[4, 8]
    size: int = BLOCK
    symmetric: bool = True

    @property
    def middle(self) -> int:
        """The code that stands for 0 in a symmetric block."""
        return 1 << (self.bits - 1)


class Precision(Record):
    """`compute`: of activations, caches and the weights that are not in blocks. `keep`: patterns of weights that never are."""

    compute: Compute = "fp32"
    blocks: Blocks | None = None
    keep: tuple[str, ...] = ()

    @property
    def name(self) -> Name:
        """What it is called for short."""
        if self.blocks is None:
            return self.compute
        return "int4" if self.blocks.bits == 4 else "int8"

    def __str__(self) -> str:
        """int4 in symmetric blocks of 32, computed in fp32"""
        if self.blocks is None:
            return self.compute
        kind = "symmetric" if self.blocks.symmetric else "asymmetric"
        return f"{self.name} in {kind} blocks of {self.blocks.size}, computed in {self.compute}"

    def record(self) -> dict[str, Any]:
        """As plain data, in the words of `precision`."""
        size, symmetric = (self.blocks.size, self.blocks.symmetric) if self.blocks else (None, None)
        return {
            "name": self.name, "compute": self.compute, "block": size, "symmetric": symmetric, "keep": list(self.keep),
        }  # fmt: skip


FP32 = Precision()
#: The types of a spec's `dtype`.
DTYPES: Mapping[str, Compute] = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


#: The types of a spec's `dtype`, by what they are called here.
TORCH: Mapping[str, str] = {precision: dtype for dtype, precision in DTYPES.items()}
#: And what else they are called.
OTHERWISE: Mapping[str, Compute] = {
    **DTYPES, "half": "fp16", "float": "fp32", "single": "fp32", "full": "fp32", "f16": "fp16", "f32": "fp32", "brain": "bf16",
}  # fmt: skip


def meant(name: str) -> str | None:
    """The precision that is called otherwise elsewhere, or is near to one that there is."""
    word = str(name).lower().removeprefix("torch.")
    return OTHERWISE.get(word) or nearest(word, get_args(Name))


def precision(
    name: Name,
    *,
    compute: Compute | None = None,
    block: int | None = None,
    symmetric: bool = True,
    keep: str | Sequence[str] = (),
) -> Precision:
    """A precision by its name; what else may be said goes with int8 and int4.

    Raises UsageError for a name that there is not, and for what does not go together.
    """
    for asked, names in ((name, get_args(Name)), (compute or "fp32", get_args(Compute))):
        if asked not in names:
            near = meant(asked)
            raise UsageError(
                f"There is no precision {asked!r}.",
                f"did you mean {near}?" if near in names else f"say {either(names)}",
            )
    if name in BYTES:
        said = {"a compute type": compute, "a block size": block, "asymmetric": not symmetric, "weights to keep": keep}
        if extra := [what for what, value in said.items() if value]:
            raise UsageError(f"{name} has no blocks, so {' and '.join(extra)} would do nothing.", "say int8 or int4")
        return Precision(name)
    if block is not None and block not in SIZES:
        raise UsageError(f"A block of {block} weights has no kernels.", f"say {either(map(str, SIZES))}")
    bits: Literal[4, 8] = 4 if name == "int4" else 8
    if bits == 4 and block == SIZES[-1] and compute not in (None, "fp32"):
        raise UsageError(
            f"4 bits in blocks of {block} have no kernel on CUDA, which is what computing in {compute} is for.",
            f"say blocks of {SIZES[-2]}, or int8",
        )
    return Precision(
        compute or "fp32", Blocks(bits, block or BLOCK, symmetric), (keep,) if isinstance(keep, str) else tuple(keep)
    )


class Storage(Record):
    """How a model's stored tensors lie in a file, by path.

    quantised: those in blocks. left: why another one is not. routers: those that are float32 whatever is computed in.
    """

    precision: Precision
    quantised: frozenset[str]
    left: Mapping[str, str]
    routers: frozenset[str]

    def __str__(self) -> str:
        """211 of 272 tensors are int4; 61: vectors"""
        reasons = Counter(self.left.values())
        why = "".join(f"; {n}: {reason}" for reason, n in reasons.items())
        return f"{len(self.quantised)} of {len(self.quantised) + len(self.left)} tensors are {self.precision.name}{why}"

    def stored_as(self, tensor: Tensor) -> Name:
        """What the numbers of a stored tensor are."""
        return self.precision.name if tensor.path in self.quantised else self._float(tensor)

    def bytes_of(self, tensor: Tensor) -> int:
        """What a stored tensor takes in a file: in blocks its codes, its scales, and zeros, of which a row has whole bytes."""
        blocks, width = self.precision.blocks, BYTES[self._float(tensor)]
        if tensor.path not in self.quantised:
            return tensor.size * width
        assert blocks is not None
        across = tensor.shape[-1] // blocks.size
        zeros = 0 if blocks.symmetric else -(-across * blocks.bits // 8)
        return tensor.size * blocks.bits // 8 + tensor.size // tensor.shape[-1] * (across * width + zeros)

    def _float(self, tensor: Tensor) -> Compute:
        return "fp32" if tensor.path in self.routers else self.precision.compute


def storage(model: Model, precision: Precision) -> Storage:
    """Decide for each stored tensor. Raises UsageError for a pattern of `keep` that no tensor has a name for."""
    blocks, routers = precision.blocks, routed(model)
    if blocks is None:
        return Storage(precision, frozenset(), {}, routers)
    kept, sides = _kept(model, precision.keep), beside_latents(model)
    why = {t.path: "kept" if t.path in kept else _unfit(t, blocks, routers, sides) for t in model.tensors()}
    left = {path: reason for path, reason in why.items() if reason}
    return Storage(precision, frozenset(why.keys() - left.keys()), left, routers)


def routed(model: Model) -> frozenset[str]:
    """The tensors of routers, which are float32 whatever the graph computes in: a choice of experts is not to be rounded."""
    at = [path for path, op, _ in walk(model) if isinstance(op, Moe)]
    return frozenset(f"{path}{name}" for path in at for name in ("router.weight", "router.bias", "selection_bias"))


def beside_latents(model: Model) -> frozenset[str]:
    """The matrices between heads and latents. A step multiplies by one of them along its columns, and blocks run along its rows."""
    at = [path for path, op, _ in walk(model) if isinstance(op, LatentAttention)]
    return frozenset(f"{path}{name}.weight" for path in at for name in ("k_up", "v_up"))


def _unfit(tensor: Tensor, blocks: Blocks, routers: frozenset[str], sides: frozenset[str]) -> str | None:
    """Why a tensor is not in blocks."""
    leaf = tensor.leaf
    if tensor.path in routers:
        return "routers"
    if tensor.path in sides:
        return "matrices beside latents"
    if isinstance(leaf, Table) and tensor.component != "token_embedding":
        return "tables of positions, types and distances"
    if not isinstance(leaf, Linear | Table) or not tensor.path.endswith(".weight"):
        return "vectors"
    width = tensor.shape[-1]
    return f"{width} wide, no multiple of {blocks.size}" if width % blocks.size else None


def _kept(model: Model, patterns: tuple[str, ...]) -> set[str]:
    """Stored tensors that a pattern names: by their path, by that of something they are part of, or by one that is tied to them."""
    kept: set[str] = set()
    if not patterns:
        return kept
    names = {t.path: t.path for t in model.tensors()} | model.ties
    for pattern in patterns:
        found = {stored for path, stored in names.items() if any(fnmatchcase(at, pattern) for at in _places(path))}
        if not found:
            near = nearest(pattern, sorted({at for path in names for at in _places(path)}))
            hint = f"did you mean {near}?" if near else "say a path, such as head or decoder.layers.0.*"
            raise UsageError(f"No weight is called {pattern}.", hint)
        kept |= found
    return kept


def _places(path: str) -> list[str]:
    """decoder.layers.0.ffn.up.weight, decoder.layers.0.ffn.up, decoder.layers.0.ffn, …"""
    parts = path.split(".")
    return [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
