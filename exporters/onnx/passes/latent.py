"""Latent attention without the keys and values: queries are brought to the latents, and what is attended to back from them.

q · (W c) is (Wᵀ q) · c, and Σ a (V c) is V Σ a c    (DeepSeek-V2, arXiv 2405.04434, section 2.1.2). A step then reads the latents
as they are kept, all heads at once, and makes no key and no value of them. For one token after 1,024 that takes a tenth of the time
of an attention, for one after 128 a third. For 512 tokens after none it takes 1.6 times as long: a pair costs R + r + R
multiplications in place of N + r + C'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from archspec.ops.latent import LatentAttention

from ..attention import spelt_out
from ..biases import biased
from ..heads import Heads, apart
from ..weights import Reading
from ..words import Attended
from .fusion import Fusion

if TYPE_CHECKING:
    from .run import OrtRun


def absorb_latents(run: OrtRun) -> Fusion | None:
    """Every attention whose latents are kept. Graphs that keep none make keys and values of the same bytes."""
    kept = {at: op for at, op in run.operations.items() if isinstance(op, LatentAttention) and op.cached}
    found = {at: op for at, op in kept.items() if f"{at}k_up" in run.products}
    for at, op in found.items():
        if run.part == "cached":
            _absorb(run, op, at)
        else:
            for name in ("k_up", "v_up"):
                _turned_when_loaded(run, f"{at}{name}")
    return Fusion("computed on latents", "latent attentions", len(found)) if run.part == "cached" and found else None


def _lying(run: OrtRun, path: str) -> ir.Value:
    """A linear's weight (O, I) as it is stored."""
    product = run.products[path]
    shape = product.out, product.inp
    read = run.rows(product.weight)
    (weight,) = run.g.weights(
        [(f"{product.weight}.rows", run.g.dtype, shape)], Reading(product.out, lambda start, stop: (read(start, stop),))
    )
    return weight


def _by_head(run: OrtRun, path: str, heads: int) -> ir.Value:
    """The same bytes, H O/H I."""
    weight, product = _lying(run, path), run.products[path]
    return run.g.view(weight, f"{weight.name}.by_head", run.g.dtype, (heads, product.out // heads, product.inp))


def _turned_when_loaded(run: OrtRun, path: str) -> None:
    """A product by the bytes that the other graph reads: ONNX Runtime turns them once."""
    product, g = run.products[path], run.g
    node = product.y.producer()
    assert node is not None
    with g.before(node):
        y = g.op("MatMul", g.now(product.x), g.op("Transpose", _lying(run, path), perm=[1, 0]))
    g.swap(product.y, y)


def _absorb(run: OrtRun, op: LatentAttention, at: str) -> None:
    g, heads = run.g, op.heads
    a = _attended(run, run.products[f"{at}v_up"].y)
    assert isinstance(a.y, Heads)
    assert op.scores.bias is None  # which no spec can say
    kept = {ref.path: value for ref, value in run.present.items()}
    latent = kept[f"{at}latent"]  # B 1 S R
    node = a.y.packed.producer()
    assert node is not None
    with g.before(node):
        nope, turned = g.nodes("Split", 2, apart(g, a.q), g.const([op.nope, op.turning]), axis=-1)
        q = g.op("Concat", g.op("MatMul", nope, _by_head(run, f"{at}k_up", heads)), turned, axis=-1)  # B H T R+r
        k = g.op("Concat", latent, kept[f"{at}rope_key"], axis=-1)
        see = run.mask(op.scores.mask, op.scores.mask.keys)
        y = spelt_out(g, q, heads, k, latent, 1, biased(g, see, g.number(0.0)), op.scores)  # B H T R
        y = g.op("MatMul", _by_head(run, f"{at}v_up", heads), g.op("Transpose", y, perm=[0, 1, 3, 2]))  # B H C' T
        y = g.op("Reshape", g.op("Transpose", y, perm=[0, 3, 1, 2]), g.const([0, 0, -1]))
    g.swap(a.y.packed, y)


def _attended(run: OrtRun, values: ir.Value) -> Attended:
    (found,) = (a for a in run.attended if isinstance(a.v, Heads) and a.v.packed is values)
    return found
