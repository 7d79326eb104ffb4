"""Attention: the sublayer that mixes positions."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from .base import Absent, Node, NonNegative, Positive, PositiveFloat, Scale, shape_of, tagged
from .norms import MaybeNorm, Norm
from .positions import AttentionPosition, NoPosition, Rope

#: Where a sublayer's norms stand in  y = outer( skip_scale·x + branch_scale·branch( f( input(x) ) ) ).
Placement = Literal["pre", "post", "branch", "sandwich", "none"]


class AddResidual(Node):
    """skip_scale · x + branch_scale · f(x)"""

    kind: Literal["add"] = "add"
    branch_scale: Scale = Field(1.0, description="of the sublayer's output")
    skip_scale: Scale = Field(1.0, description="of its input")


class GatedResidual(Node):
    """sqrt(1 - b²) · x + b · f(x), b = sigmoid(w / temperature), with a learned w for each channel"""

    kind: Literal["gated"] = "gated"
    temperature: PositiveFloat = Field(1.0, description="divides w")
    floor: Annotated[float, Field(ge=0, lt=1)] = Field(0.0, description="1 - b² is at least this")


class NoResidual(Node):
    """f(x) alone: no skip connection"""

    kind: Literal["none"] = "none"


Residual = Annotated[AddResidual | GatedResidual | NoResidual, Field(discriminator="kind"), tagged("add")]


class Sublayer(Node):
    """A function inside a residual connection."""

    placement: Placement | None = Field(None, description="where its norms stand; = the block's")
    residual: Residual | None = Field(None, description="its skip connection; = the block's")
    branch_norm: Norm | None = Field(None, description="of its branch, where its placement has one; = the block's norm")


class SlidingWindow(Node):
    """decoder: i - size < j <= i (size keys, itself included); encoder: |i - j| <= size"""

    kind: Literal["sliding"] = "sliding"
    size: Positive = Field(description="in tokens")


class Chunk(Node):
    """floor(i / size) = floor(j / size)"""

    kind: Literal["chunk"] = "chunk"
    size: Positive = Field(description="in tokens")


def _window(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return {"kind": "sliding", "size": value}
    return value


Window = Annotated[
    Annotated[SlidingWindow | Chunk, Field(discriminator="kind")] | None, BeforeValidator(_window), Absent
]


class QKNorm(Node):
    """A norm of q and of k"""

    over: Literal["head", "each_head", "vector"] = Field(
        description="`head`: one weight of head_dim for all heads; `each_head`: a weight per head; `vector`: the whole projection"
    )
    norm: Norm = Field(description="= the block's norm")
    order: Literal["before_rope", "after_rope"] = Field("before_rope", description="on which side of the rotation")


class OutputGate(Node):
    """merged heads ·= activation(linear x + bias)"""

    activation: Literal["sigmoid", "softplus", "silu"] = Field("sigmoid", description="of the gate")
    per: Literal["channel", "head"] = Field("channel", description="a value per channel, or per head")
    bias: Literal["none", "value", "head"] = Field("none", description="one for each value, or one for each head")


class Temperature(Node):
    """q ·= 1 + slope · ln(1 + floor((position + offset) / period))    (Llama 4)

    `growth: power`: q ·= (1 + (position + offset) / period)^slope
    """

    growth: Literal["log", "power"] = Field("log", description="with the logarithm, in steps; or as a power")
    slope: PositiveFloat = Field(description="growth per e-fold of the position")
    period: Positive = Field(description="in tokens")
    offset: NonNegative = Field(1, description="added to the position")


AllOrNone = Annotated[bool, Tag("scalar")]
Projections = Annotated[
    AllOrNone | Annotated[tuple[Literal["q", "k", "v", "o"], ...], Tag("list")], Discriminator(shape_of)
]


class Heads(Sublayer):
    """What self and cross attention share."""

    heads: Positive = Field(description="query heads, H")
    kv_heads: Positive | None = Field(None, description="key and value heads, K; divides heads; = heads")
    head_dim: Positive | None = Field(None, description="channels of a query or key head, C; = d_model / heads")
    v_head_dim: Positive | None = Field(None, description="channels of a value head; = head_dim")
    bias: Projections = Field(False, description="of all four linears, or a list of q, k, v, o")
    scale: Scale = Field("1/sqrt(head_dim)", description="of the scores")
    softcap: Annotated[PositiveFloat | None, Absent] = Field(
        None, description="s ← cap · tanh(s / cap), before the mask"
    )
    clip: Annotated[PositiveFloat | None, Absent] = Field(None, description="q, k and v clamped to ±clip")
    qk_norm: Annotated[QKNorm | None, Absent] = Field(None, description="a norm of q and k")
    v_norm: MaybeNorm = Field(None, description="a norm of v, per head")
    head_norm: MaybeNorm = Field(None, description="a norm of each head's result, before a gate")
    out_norm: MaybeNorm = Field(None, description="a norm of the merged heads, before o")
    gate: Annotated[OutputGate | None, Absent] = Field(None, description="a gate on the merged heads")


class SoftmaxAttention(Heads):
    """o( softmax( cap(scale · q kᵀ) + mask ) v )    (arXiv 1706.03762; grouped heads: arXiv 2305.13245)"""

    kind: Literal["softmax"] = "softmax"
    position: AttentionPosition = Field(NoPosition.model_construct(), description="required if the embedding has none")
    window: Window = Field(None, description="an integer, or {kind: chunk, size}")
    mask: Literal["causal", "prefix", "bidirectional"] | None = Field(
        None, description="a decoder is causal or prefix, an encoder bidirectional; = the stack's"
    )
    sinks: bool = Field(False, description="a learned logit per head joins the softmax and is dropped")
    temperature: Annotated[Temperature | None, Absent] = Field(None, description="q grows with its position")


class CrossAttention(Heads):
    """as softmax attention, with keys and values from the encoder's output; no mask, no position"""

    kind: Literal["softmax"] = "softmax"


class LatentAttention(Sublayer):
    """c = norm(kv_down x), k = [k_up c ; rope(k_rope x)], v = v_up c, q = q_up norm(q_down x)    (MLA, arXiv 2405.04434)

    The cache holds c and the one rotary key. The rotary channels come last in a head.
    """

    kind: Literal["mla"] = "mla"
    heads: Positive = Field(description="query heads, H")
    q_lora_rank: Annotated[Positive | None, Absent] = Field(None, description="rank of q; none: one full linear")
    kv_lora_rank: Positive = Field(description="width of the cached latent c")
    qk_nope_head_dim: Positive = Field(description="channels of a head that do not turn")
    qk_rope_head_dim: Positive = Field(description="channels of a head that turn")
    v_head_dim: Positive = Field(description="channels of a value head")
    latent_norm: MaybeNorm = Field(None, description="of both latents; = the block's norm")
    scale: Scale = Field("1/sqrt(head_dim)", description="of the scores; head_dim is nope + rope")
    position: Annotated[Rope | NoPosition, Field(discriminator="kind"), tagged()] = Field(description="rope or none")
    window: Window = Field(None, description="an integer, or {kind: chunk, size}")
    temperature: Annotated[Temperature | None, Absent] = Field(None, description="q grows with its position")


Attention = Annotated[SoftmaxAttention | LatentAttention, Field(discriminator="kind"), tagged("softmax")]
MaybeAttention = Annotated[Attention | None, Absent]
MaybeCrossAttention = Annotated[Annotated[CrossAttention, tagged("softmax")] | None, Absent]
