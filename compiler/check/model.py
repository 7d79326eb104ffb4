"""The embedding, the head, and what concerns the model as a whole."""

from __future__ import annotations

from pydantic import BaseModel

from archspec.language.base import scale_names
from archspec.language.model import ClassifierHead, LmHead, PoolerHead, Spec, depth_of
from archspec.language.norms import L2Norm, LayerNorm, RMSNorm
from archspec.language.positions import LearnedPosition, SinusoidalPosition

from ..nodes import Report
from ..places import Path, Places
from .layers import value_of

#: Half the smallest positive float16: what is smaller becomes 0.
_VANISHES = 2.0**-25
#: Above this an eps is no guard against a division by zero: activations have a mean square near 1.
_OUTWEIGHS = 0.1


def check_model(spec: Spec, places: Places, report: Report, tainted: frozenset[Path]) -> None:
    """Report on the embedding and the head, and on the precision of every norm."""
    if ("embedding",) not in tainted:
        _embedding(spec, places, report)
    if ("head",) not in tainted:
        _head(spec, places, report)
    if spec.encoder is not None and spec.decoder is not None and not tainted:
        _stacks(spec, places, report)
    _depth(spec, places, report)
    _eps(spec, (), spec.dtype == "float16", places, report)


#: A hundred times the deepest model there is: beyond it a number is a slip of the pen.
MOST_LAYERS = 20_000


def _depth(spec: Spec, places: Places, report: Report) -> None:
    for name, stack in spec.stacks().items():
        depth = depth_of(stack.layers)
        if depth > MOST_LAYERS:
            report.error(
                "A410",
                f"the {name} has {depth:,} layers",
                places(name, "layers"),
                f"at most {MOST_LAYERS:,}; the deepest models have hundreds",
            )


def _embedding(spec: Spec, places: Places, report: Report) -> None:
    embedding = spec.embedding
    _scale(spec, embedding.scale, ("embedding", "scale"), "no token reaches the sum", places, report)
    if embedding.share is not None and (spec.encoder is None or spec.decoder is None):
        message = "one stack has nothing to share its tokens with"
        report.error("A601", message, places("embedding", "share"), "remove the line")
    position = embedding.position
    if isinstance(position, LearnedPosition) and spec.context_length is None:
        message = "a learned position table needs its number of rows"
        report.error("A302", message, places("embedding", "position"), "add `context_length`")
    if isinstance(position, SinusoidalPosition):
        projection = embedding.projection
        width = projection.dim if projection is not None and projection.of == "sum" else spec.d_model
        if width % 2:
            message = f"sinusoidal positions are pairs of sine and cosine, and the width {width} is odd"
            report.error("A313", message, places("embedding", "position"), f"{width - 1} or {width + 1} channels")


def _scale(spec: Spec, scale: float | str, path: Path, nothing: str, places: Places, report: Report) -> None:
    if "head_dim" in scale_names(scale):
        report.error("A207", "there is no head_dim here", places(*path), "d_model, layers or a number")
        return
    depth = max(depth_of(stack.layers) for stack in spec.stacks().values())
    value = value_of(scale, d_model=spec.d_model, layers=depth)
    if value is None:
        report.error("A209", f"the scale {scale} is not a number", places(*path), "nothing divides by zero")
    elif value == 0:
        report.error("A209", f"with a scale of 0 {nothing}", places(*path), "remove the line")


def _head(spec: Spec, places: Places, report: Report) -> None:
    head = spec.head
    if isinstance(head, LmHead):
        _scale(spec, head.scale, ("head", "scale"), "all logits are equal", places, report)
    first = isinstance(head, PoolerHead) or (isinstance(head, ClassifierHead) and head.pool == "first")
    if first and spec.decoder is not None:
        message = "the first token of a decoder has seen only itself"
        remedy = "`kind: classifier` with `pool: last`" if isinstance(head, PoolerHead) else "`pool: last`"
        report.warn("A603", message, places("head", "pool"), remedy)


def _stacks(spec: Spec, places: Places, report: Report) -> None:
    assert spec.decoder is not None
    if not _reads(spec.decoder) and not any(error.code in ("A406", "A605") for error in report.errors):
        message = "no decoder layer looks at the encoder: its output is never used"
        report.error("A604", message, places("encoder"), "remove the encoder, or a `cross_attention: none`")


def _reads(part: BaseModel) -> bool:
    """Whether any layer in a stack or a group has cross attention."""
    entries = getattr(part, "layers", None)
    return any(map(_reads, entries)) if entries is not None else getattr(part, "cross_attention", None) is not None


def _eps(part: BaseModel, path: Path, half: bool, places: Places, report: Report) -> None:
    """Warn of every norm whose eps becomes zero in the weights' precision (`half`), or is as large as what it is added to."""
    for name in type(part).model_fields:
        value = getattr(part, name)
        if isinstance(value, LayerNorm | RMSNorm | L2Norm):
            place = places(*path, name, "eps")
            if half and value.eps < _VANISHES:
                message = f"eps {value.eps:g} is 0 in float16, whose smallest number is 6e-08"
                report.warn("A206", message, place, "an eps of 1e-6 or more, or `dtype: bfloat16`")
            elif value.eps > _OUTWEIGHS:
                message = f"eps {value.eps:g} outweighs what it is added to"
                report.warn("A210", message, place, f"an eps is small: {_small(value.eps)}")
        elif isinstance(value, BaseModel):
            _eps(value, (*path, name), half, places, report)
        elif isinstance(value, tuple):
            for index, item in enumerate(value):
                if isinstance(item, BaseModel):
                    _eps(item, (*path, name, index), half, places, report)


def _small(eps: float) -> str:
    """The small number that a large one was likely meant to be: 1e5 lacks its minus sign."""
    return f"{1 / eps:.0e}".replace("e-0", "e-") if eps >= 1e3 else "1e-5"
