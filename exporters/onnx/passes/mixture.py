"""Mixtures of experts as `com.microsoft.MoE`, and as `QMoE` where their matrices are in blocks.

The kernels choose experts by numbers that they take for logits. A softmax router's logits they are given as they are, if weights
are normalized (without, ONNX Runtime 1.31 writes over what it still reads). Any other choice is made outside, and they get a row
for each token that leaves them none: QMoE the weights of the chosen experts among zeros, which it takes as they are; MoE their
logarithms, of which its own softmax makes weights again, but for their sum.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from archspec.ops.ffn import Gated, Mlp
from archspec.ops.moe import Moe

from ..graph import Array, without_tail
from ..weights import Reader, Reading, whole
from ..words import OnnxRun
from .fusion import Fusion
from .nbits import INTEGERS, rows_of

if TYPE_CHECKING:
    from .run import OrtRun

#: The CPU's kernel takes a fifth longer for a float32 expert than a body of its own does. From so many experts on, idle bodies
#: take longer still.
MANY = 64
#: What CUDA's kernel of matrices in blocks reads at once along a row, and the least block that may have a zero of its own there.
TILE, LEAST = 64, 32
#: α of gate · sigmoid(α · gate) · up, by activation.
GATED = {"silu": 1.0, "quick_gelu": 1.702}
#: What the kernels call an activation; their `gelu` is the one by tanh.
PLAIN = {"relu": "relu", "gelu_tanh": "gelu", "gelu_tanh_8": "gelu", "silu": "silu", "identity": "identity"}


def report_mixtures(run: OrtRun) -> Fusion | None:
    """What became of the mixtures when the words were spoken."""
    if not run.mixtures:
        return None
    kernels = sorted({kernel for kernel, reason in run.mixtures if not reason})
    left = Counter(reason for _, reason in run.mixtures if reason)
    return Fusion(" and ".join(kernels) or "MoE", "mixtures of experts", len(run.mixtures) - left.total(), left)


def mixed(run: OnnxRun, moe: Moe, at: str, x: ir.Value, weights: ir.Value, chosen: ir.Value) -> ir.Value:
    """B T D, B T k, B T k -> B T D by the kernel, of the mixture at a path (with a dot at its end) that is not `unfit`."""
    if moe.weigh_input:  # of the one expert of a token: its result is not weighted
        x, weights = run.g.op("Mul", x, weights), run.g.op("Expand", run.g.number([1.0]), run.g.op("Shape", weights))
    kernel = _in_blocks if all(_quantised(run, moe, at)) else _in_floats
    return kernel(run, moe, at, x, weights, chosen)


def kernel_of(run: OnnxRun, moe: Moe, at: str) -> str:
    return "QMoE" if all(_quantised(run, moe, at)) else "MoE"


def unfit(run: OnnxRun, moe: Moe, at: str) -> str | None:
    """Why the kernels do not compute this, or not as fast."""
    if moe.weigh_input and moe.routing.k > 1:
        return "weights on the input of several experts"
    if moe.expert_norm or moe.expert.mid_norm:
        return "a norm of each expert"
    if isinstance(moe.expert, Gated) and moe.expert.clamp and moe.expert.clamp_activated:
        return "a clamp of the activated gate"
    if _equation(moe.expert) is None:
        return f"experts with {moe.expert.activation}"
    quantised = _quantised(run, moe, at)
    if any(quantised) != all(quantised):
        return "experts in blocks in part"
    if any(quantised) and run.g.half and (reason := _without_cuda(run, moe.expert)):
        return reason
    return f"fewer than {MANY} experts" if moe.experts < MANY and not run.g.half and not any(quantised) else None


def _without_cuda(run: OnnxRun, expert: Mlp | Gated) -> str | None:
    """Why CUDA's kernel does not take these experts: what computes in half of a float is for a GPU."""
    blocks = run.storage.precision.blocks
    assert blocks is not None
    if expert.width % TILE or expert.hidden % TILE:
        return f"experts of {expert.hidden} by {expert.width}, where CUDA's kernel wants multiples of {TILE}"
    if blocks.size < LEAST and not blocks.symmetric:
        return f"asymmetric blocks of {blocks.size}, where CUDA's kernel wants {LEAST} or more"
    return None


def _quantised(run: OnnxRun, moe: Moe, at: str) -> list[bool]:
    """Of each of an expert's matrices: is it in blocks?"""
    names = ("gate", "up", "down") if isinstance(moe.expert, Gated) else ("up", "down")
    return [run.stored_path(f"{at}expert.{name}.weight") in run.storage.quantised for name in names]


def _equation(expert: Mlp | Gated) -> dict[str, Any] | None:
    """An expert's function as the kernels are told it, if they have it."""
    kind = str(expert.activation)
    if isinstance(expert, Mlp):
        return {"activation_type": PLAIN[kind]} if kind in PLAIN else None
    if kind not in GATED:
        return None
    limit = {"swiglu_limit": expert.clamp} if expert.clamp else {}
    by = {"activation_alpha": GATED[kind], "activation_beta": expert.up_shift}
    return {"activation_type": "swiglu", "swiglu_fusion": 1, **by, **limit}  # 1: rows of gate and up take turns


def _in_floats(run: OnnxRun, moe: Moe, at: str, x: ir.Value, weights: ir.Value, chosen: ir.Value) -> ir.Value:
    g, probs = run.g, _own_logits(run, moe, at)
    options: dict[str, Any] = {"k": moe.routing.k, "normalize_routing_weights": 1, **(_equation(moe.expert) or {})}
    ins = [value for side in _sides(run, moe, at) for value in (_stack(run, side, moe.experts), side.bias)]
    if probs is not None:
        return _scaled(run, moe, g.op("com.microsoft.MoE", x, probs, *ins, **options))
    shares = g.full(_spread(run, moe, weights, chosen))  # ONNX Runtime has no Log of bfloat16
    with g.precise():
        logarithms = g.op("Log", g.op("Max", shares, g.number(1e-37)))
    probs = g.halved(logarithms)
    y = g.op("com.microsoft.MoE", x, probs, *ins, **options)
    return g.op("Mul", y, g.op("ReduceSum", weights, g.const([-1])))


def _in_blocks(run: OnnxRun, moe: Moe, at: str, x: ir.Value, weights: ir.Value, chosen: ir.Value) -> ir.Value:
    g, probs, blocks = run.g, _own_logits(run, moe, at), run.storage.precision.blocks
    assert blocks is not None
    options: dict[str, Any] = {
        "k": moe.routing.k,
        "normalize_routing_weights": int(probs is not None),
        "expert_weight_bits": blocks.bits,
        "block_size": blocks.size,
        "accuracy_level": 0 if g.half else INTEGERS,
        "weights_prepacked": 0,  # rows as they are read
        **(_equation(moe.expert) or {}),
    }
    sides = _sides(run, moe, at)
    rows = [_stacks(run, side, moe.experts) for side in sides]
    matrices = [
        value for (codes, scales, *_), side in zip(rows, sides, strict=True) for value in (codes, scales, side.bias)
    ]
    zeros = [None if blocks.symmetric else row[2] for row in rows]
    shares = None if probs is not None else _spread(run, moe, weights, chosen)
    ins = without_tail([*matrices, None, None, None, *zeros, None, shares])
    y = g.op("com.microsoft.QMoE", x, shares if probs is None else probs, *ins, **options)
    return y if probs is None else _scaled(run, moe, y)


def _own_logits(run: OnnxRun, moe: Moe, at: str) -> ir.Value | None:
    """n E: a router's logits, where the kernels do with them what it does. In half of a float they would choose others."""
    r = moe.routing
    if run.g.half or moe.weigh_input or r.score != "softmax" or not r.normalize or moe.selection_bias or r.groups > 1:
        return None
    return run.g.op("Reshape", run.products[f"{at}router"].y, run.g.const([-1, moe.experts]))


def _scaled(run: OnnxRun, moe: Moe, y: ir.Value) -> ir.Value:
    return y if moe.routing.scale == 1.0 else run.g.op("Mul", y, run.g.number(moe.routing.scale))


def _spread(run: OnnxRun, moe: Moe, weights: ir.Value, chosen: ir.Value) -> ir.Value:
    """B T k, B T k -> n E: the weight of each expert, 0 of those that are not chosen."""
    g = run.g
    with g.precise():  # ONNX has no OneHot of bfloat16
        hot = g.op("OneHot", chosen, g.const(moe.experts), g.number([0.0, 1.0]))  # B T k E
    each = g.op("MatMul", g.op("Unsqueeze", weights, g.const([2])), g.halved(hot))  # B T 1 E
    return g.op("Reshape", each, g.const([-1, moe.experts]))


@dataclass(frozen=True)
class Side:
    """A matrix that the kernels read of each expert, (out, inp). `rows`: of all of them, one below the other.

    parts: the stored tensors it is made of, if not the one of its name.
    """

    name: str
    out: int
    inp: int
    rows: Reader
    bias: ir.Value | None
    parts: tuple[str, ...] = ()


def _sides(run: OnnxRun, moe: Moe, at: str) -> tuple[Side, Side]:
    """What widens and what narrows. A gate and what it opens for are one matrix, whose rows take turns."""
    expert, place = moe.expert, f"{at}expert."
    d, f = expert.width, expert.hidden
    gate, up, down = (run.stored_path(f"{place}{name}.weight") for name in ("gate", "up", "down"))

    def bias(name: str, width: int) -> ir.Value | None:
        return run.vector(f"{place}{name}.bias", (moe.experts, width)) if name in expert.bias else None

    narrow = Side(down, d, f, run.rows(down), bias("down", d))
    if isinstance(expert, Mlp):
        return Side(up, f, d, run.rows(up), bias("up", f)), narrow
    both = down.removesuffix("down.weight") + "gate_up"

    def biases() -> Array:
        paths = {name: run.stored_path(f"{place}{name}.bias") for name in ("gate", "up")}
        given = [
            run.weights(p) if n in expert.bias else np.zeros((moe.experts, f), np.float32) for n, p in paths.items()
        ]
        return np.stack(given, axis=-1).reshape(moe.experts, 2 * f)

    beside = (
        run.g.weight(f"{both}.bias", (moe.experts, 2 * f), whole(biases)) if {"gate", "up"} & {*expert.bias} else None
    )
    return Side(f"{both}.weight", 2 * f, d, _in_turn(run.rows(gate), run.rows(up)), beside, (gate, up)), narrow


def _in_turn(a: Reader, b: Reader) -> Reader:
    """A row of a, a row of b, the next of a, …"""

    def read(start: int, stop: int) -> Array:
        first, last = start // 2, -(-stop // 2)
        both = np.stack([a(first, last), b(first, last)], axis=1)
        rows: Array = both.reshape(-1, both.shape[-1])[start - 2 * first : stop - 2 * first]
        return rows

    return read


def _stack(run: OnnxRun, side: Side, experts: int) -> ir.Value:
    """E out inp"""
    reading = Reading(experts * side.out, lambda start, stop: (side.rows(start, stop),))
    return run.g.weights([(side.name, run.g.dtype, (experts, side.out, side.inp))], reading)[0]


def _stacks(run: OnnxRun, side: Side, experts: int) -> list[ir.Value]:
    """Codes, scales and zeros (where a block has one), E out … each."""
    rows = rows_of(run.g, run.matrix(side.name, experts * side.out, side.inp, side.rows, *side.parts))
    return [_by_expert(run, value, experts) for value in rows]


def _by_expert(run: OnnxRun, rows: ir.Value, experts: int) -> ir.Value:
    assert rows.dtype is not None
    assert rows.shape is not None
    out, *rest = rows.shape.numpy()
    return run.g.view(rows, f"{rows.name}.experts", rows.dtype, (experts, out // experts, int(np.prod(rest))))
