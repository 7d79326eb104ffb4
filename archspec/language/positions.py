"""Positions: what tells a model the order of its tokens. Some are added to the embedding, some act inside attention."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from .base import Absent, Node, NonNegative, Number, Positive, PositiveFloat, tagged
from .norms import MaybeNorm


class NoPosition(Node):
    """No position here: a statement, not an omission."""

    kind: Literal["none"] = "none"


class LearnedPosition(Node):
    """x + table[position + offset]; the table has context_length + offset rows"""

    kind: Literal["learned"] = "learned"
    offset: NonNegative = Field(0, description="rows before the first position")
    count: Literal["every", "unpadded"] = Field(
        "every", description="does a padding token between others take a position?"
    )


class SinusoidalPosition(Node):
    """x + sin / cos of position · base^(-2i/D)    (Vaswani et al. 2017, arXiv 1706.03762); no parameters"""

    kind: Literal["sinusoidal"] = "sinusoidal"
    base: PositiveFloat = Field(10000.0, description="the longest wavelength is 2π · base")
    layout: Literal["interleaved", "halves"] = Field(
        "interleaved", description="sin, cos, sin, cos … or all sin, then all cos"
    )
    offset: NonNegative = Field(0, description="added to every position")
    count: Literal["every", "unpadded"] = Field(
        "every", description="does a padding token between others take a position?"
    )


EmbeddingPosition = Annotated[LearnedPosition | SinusoidalPosition | NoPosition, Field(discriminator="kind"), tagged()]


class LinearScaling(Node):
    """frequency / factor    (Chen et al. 2023, arXiv 2306.15595)"""

    kind: Literal["linear"] = "linear"
    factor: PositiveFloat = Field(description="how many times longer the context becomes")


class NtkScaling(Node):
    """theta · alpha^(dim / (dim - 2))"""

    kind: Literal["ntk"] = "ntk"
    alpha: PositiveFloat = Field(description="how far the base is stretched")


class ProportionalScaling(Node):
    """the first share of the pairs turns (and is divided by factor), the rest does not turn"""

    kind: Literal["proportional"] = "proportional"
    share: Annotated[float, Field(gt=0, le=1)] = Field(description="of the pairs that turn")
    factor: PositiveFloat = Field(1.0, description="divides their frequencies")


class DynamicScaling(Node):
    """theta grows with the length of the run once it passes original_context (NTK)"""

    kind: Literal["dynamic"] = "dynamic"
    factor: PositiveFloat = Field(description="how many times longer the context becomes")
    original_context: Positive = Field(description="the context length before scaling")


class RampScaling(Node):
    """long wavelengths / factor, short ones kept, a smooth ramp between    (Llama 3.1)"""

    kind: Literal["ramp"] = "ramp"
    factor: PositiveFloat = Field(description="divides the low frequencies")
    original_context: Positive = Field(description="the context length before scaling")
    low_frequency: PositiveFloat = Field(
        1.0, description="turns per original context below which a frequency is divided"
    )
    high_frequency: PositiveFloat = Field(4.0, description="turns per original context above which it is kept")


class YarnScaling(Node):
    """NTK by parts; m = 0.1·mscale·ln(factor) + 1 multiplies cos and sin, or m² the scores    (arXiv 2309.00071)"""

    kind: Literal["yarn"] = "yarn"
    factor: PositiveFloat = Field(description="how many times longer the context becomes")
    original_context: Positive = Field(description="the context length before scaling")
    beta_fast: PositiveFloat = Field(32.0, description="turns above which a frequency is kept")
    beta_slow: PositiveFloat = Field(1.0, description="turns below which it is divided")
    truncate: bool = Field(True, description="round the ramp's ends to whole channels")
    mscale: Number = Field(1.0, description="strength of the temperature m")
    mscale_on: Literal["rotation", "scores", "none"] = Field(
        "rotation", description="m on cos and sin, m² on all scores, or neither"
    )


class LongRopeScaling(Node):
    """a divisor per frequency: `short` up to original_context, `long` past it    (arXiv 2402.13753)"""

    kind: Literal["longrope"] = "longrope"
    original_context: Positive = Field(description="the context length before scaling")
    short: tuple[PositiveFloat, ...] = Field(description="a divisor per frequency, up to original_context")
    long: tuple[PositiveFloat, ...] = Field(description="a divisor per frequency, past it")
    factor: PositiveFloat | None = Field(
        None, description="of the attention temperature; = context_length / original_context"
    )


RopeScaling = Annotated[
    LinearScaling | NtkScaling | ProportionalScaling | DynamicScaling | RampScaling | YarnScaling | LongRopeScaling,
    Field(discriminator="kind"),
    tagged(),
]


class Rope(Node):
    """turns pairs of q and k channels by position · theta^(-2i/dim)    (Su et al. 2021, arXiv 2104.09864)"""

    kind: Literal["rope"] = "rope"
    theta: PositiveFloat = Field(10000.0, description="the base of the wavelengths")
    dim: Positive | None = Field(None, description="the first channels of a head that turn; = head_dim")
    pairing: Literal["half", "interleaved"] = Field("half", description="pairs (i, i + dim/2), or (2i, 2i + 1)")
    scaling: Annotated[RopeScaling | None, Absent] = Field(None, description="for contexts longer than trained")


class Alibi(Node):
    """score -= slope_h · (i - j), slope_h = 2^(-max_bias (h+1) / H)    (Press et al. 2021, arXiv 2108.12409)"""

    kind: Literal["alibi"] = "alibi"
    max_bias: PositiveFloat = Field(8.0, description="the steepest slope is 2^(-max_bias / H)")
    order: Literal["after_scale", "before_scale"] = Field(
        "after_scale", description="before_scale: the bias is scaled as well"
    )


class RelativeBuckets(Node):
    """score += table[bucket(j - i), h]; log-spaced buckets, two-sided in an encoder    (T5, arXiv 1910.10683)"""

    kind: Literal["relative_buckets"] = "relative_buckets"
    buckets: Positive = Field(32, description="rows of the table")
    max_distance: Positive = Field(128, description="distance at which the last bucket begins")
    table: Literal["per_stack", "per_layer"] = Field("per_stack", description="one table for all layers, or one each")


def _once(terms: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(terms)) < len(terms):
        raise ValueError("each term is said once")
    return terms


class Disentangled(Node):
    """score = scale / sqrt(1 + terms) · (q·k + [c2p] q·r_k + [p2c] r_q·k), r a row for i - j    (DeBERTa, arXiv 2006.03654)

    One table of 2 · buckets rows serves all layers of a stack. A row becomes r_q and r_k as a token becomes q and k.
    """

    kind: Literal["disentangled"] = "disentangled"
    terms: Annotated[tuple[Literal["c2p", "p2c"], ...], AfterValidator(_once)] = Field(
        ("c2p", "p2c"), min_length=1, description="content-to-position, position-to-content"
    )
    buckets: Positive = Field(description="rows of the table on either side")
    max_distance: Annotated[Positive | None, Absent] = Field(
        None, description="distance at which log-spaced buckets end; none: a bucket for each distance, up to the last"
    )
    projections: Literal["own", "shared"] = Field(
        "own", description="linears make r_q and r_k: own ones, with the biases of q and k, or theirs"
    )
    norm: MaybeNorm = Field(None, description="of the table's rows")


AttentionPosition = Annotated[
    Rope | Alibi | RelativeBuckets | Disentangled | NoPosition, Field(discriminator="kind"), tagged()
]
