"""Layers, stacks, embedding, heads, and the whole spec."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from .attention import AddResidual, MaybeAttention, MaybeCrossAttention, Placement, Residual
from .base import Absent, Node, NonNegative, Positive, PositiveFloat, Probability, Scale, tagged
from .ffn import Activation, MaybeFfn
from .norms import MaybeNorm, Norm
from .positions import EmbeddingPosition, NoPosition


class Layer(Node):
    """One block, `repeat` times: y = outer( skip_scale·x + branch_scale·branch( f( input(x) ) ) ) for each sublayer f."""

    repeat: Positive = Field(1, description="how many such layers follow each other")
    weights: Literal["own", "shared"] = Field("own", description="shared: one set of weights for all repeats")
    norm: Norm = Field(description="of every norm site in the block; = the stack's")
    placement: Placement = Field(
        "pre", description="pre: input. post: outer. branch: branch. sandwich: input and branch. none"
    )
    parallel: Annotated[Literal["one_norm", "two_norms"] | None, Absent] = Field(
        None, description="attention and ffn read the same x; one norm for both, or one each"
    )
    residual: Residual = Field(AddResidual.model_construct(), description="the skip connection, or `none`")
    attention: MaybeAttention = Field(None, description="`none`: no such sublayer")
    cross_attention: MaybeCrossAttention = Field(None, description="beside an encoder; = this layer's attention")
    ffn: MaybeFfn = Field(None, description="`none`: no such sublayer")


def _entry(value: Any) -> str:
    return "group" if isinstance(value, Group) or (isinstance(value, dict) and "layers" in value) else "layer"


class Group(Node):
    """Layers in a row, `repeat` times."""

    repeat: Positive = Field(1, description="how many times the row is repeated")
    weights: Literal["own", "shared"] = Field(
        "own", description="shared: one set of weights for all repeats of the row"
    )
    layers: "tuple[Entry, ...]" = Field(min_length=1, description="the row")


Entry = Annotated[Annotated[Layer, Tag("layer")] | Annotated[Group, Tag("group")], Discriminator(_entry)]


def depth_of(entries: "tuple[Entry, ...]") -> int:
    """How many layers entries stand for."""
    return sum(entry.repeat * (depth_of(entry.layers) if isinstance(entry, Group) else 1) for entry in entries)


class Stack(Node):
    """Layers in order, first to last."""

    layers: tuple[Entry, ...] = Field(min_length=1, description="a number, or a list of entries")
    final_norm: MaybeNorm = Field(None, description="= the stack's norm, unless placement is post")


class Projection(Node):
    """token rows of `dim`, widened to d_model by one linear"""

    dim: Positive = Field(description="width of the token table")
    of: Literal["tokens", "sum"] = Field(description="widen the tokens before the sum, or the normed sum")
    bias: bool = Field(description="of the linear")


class Embedding(Node):
    """norm( scale · tokens + position + token types )"""

    position: EmbeddingPosition = Field(NoPosition.model_construct(), description="added to the tokens")
    token_types: NonNegative = Field(0, description="rows of the token type table")
    scale: Scale = Field(1.0, description="of the token rows")
    norm: MaybeNorm = Field(None, description="of the sum")
    projection: Annotated[Projection | None, Absent] = Field(None, description="a token table narrower than d_model")
    share: Literal["tokens", "none"] | None = Field(
        None, description="with two stacks: one token table for both; = tokens"
    )


class Dense(Node):
    """activation( dense h )"""

    activation: Activation = Field(description="of the dense layer")
    bias: bool = Field(True, description="of the dense layer")


class HeadTransform(Dense):
    """norm( activation( dense h ) ), to the width of the token table"""

    norm: Norm = Field(description="= the model's norm")


class LmHead(Node):
    """softcap( scale · W t(h) + bias ); tied: W is the token table. The stack says whether it is causal or masked."""

    kind: Literal["lm"] = "lm"
    tied: bool = Field(description="W is the token table (the decoder's, where there are two)")
    bias: bool = Field(False, description="a bias per vocabulary entry")
    scale: Scale = Field(1.0, description="of the logits")
    softcap: Annotated[PositiveFloat | None, Absent] = Field(None, description="l ← cap · tanh(l / cap)")
    transform: Annotated[HeadTransform | None, Absent] = Field(None, description="a dense layer before W")


class PoolerHead(Node):
    """activation( dense h[0] )"""

    kind: Literal["pooler"] = "pooler"
    activation: Activation = Field("tanh", description="of the dense layer")


class ClassifierTransform(Dense):
    """norm( activation( dense h ) )"""

    norm: MaybeNorm = Field(None, description="of its result")


class ClassifierHead(Node):
    """linear( t( pool h ) )"""

    kind: Literal["classifier"] = "classifier"
    labels: Positive = Field(description="classes")
    pool: Literal["first", "last", "mean", "tokens"] = Field(
        description="which rows; `tokens`: a label for every token"
    )
    bias: bool = Field(True, description="of the linear")
    transform: Annotated[ClassifierTransform | None, Absent] = Field(
        None, description="a dense layer before the linear"
    )


class NoHead(Node):
    """h itself"""

    kind: Literal["none"] = "none"


Head = Annotated[LmHead | PoolerHead | ClassifierHead | NoHead, Field(discriminator="kind"), tagged("lm")]


class Dropout(Node):
    """Probabilities of dropping, while training; 0 means off."""

    embedding: Probability = Field(0.0, description="of the embedding sum")
    attention: Probability = Field(0.0, description="of the attention probabilities")
    ffn: Probability = Field(0.0, description="after the activation")
    residual: Probability = Field(0.0, description="of every branch, before its sum")


class NormalInit(Node):
    """weights ~ N(0, std²), biases 0"""

    kind: Literal["normal"] = "normal"
    std: PositiveFloat = Field(0.02, description="standard deviation")
    residual: Literal["plain", "depth_scaled"] = Field(
        "plain", description="depth_scaled: o and down by 1/sqrt(2·layers)"
    )
    truncated: bool = Field(False, description="cut at two standard deviations")


class XavierInit(Node):
    """weights ~ U(±gain · sqrt(6 / (in + out)))    (Glorot and Bengio 2010)"""

    kind: Literal["xavier"] = "xavier"
    gain: PositiveFloat = Field(1.0, description="factor")


class FanInInit(Node):
    """weights ~ N(0, gain² / in)"""

    kind: Literal["fan_in"] = "fan_in"
    gain: PositiveFloat = Field(1.0, description="factor")


Init = Annotated[NormalInit | XavierInit | FanInInit, Field(discriminator="kind"), tagged()]


class Expect(Node):
    """Totals published elsewhere; a spec that misses them fails."""

    parameters: Positive | None = Field(None, description="unique parameters")
    active_parameters: Positive | None = Field(None, description="parameters a token uses")
    source: str = Field(min_length=1, description="where the totals come from")


class About(Node):
    """Shown, never interpreted."""

    title: str | None = Field(None, description="the model's name")
    paper: str | None = Field(None, description="where it was published")
    source: str | None = Field(None, description="where its configuration was read")
    license: str | None = Field(None, description="of its weights")
    notes: str | None = Field(None, description="anything else")


class Spec(Node):
    """A whole model."""

    archspec: Literal[1] = Field(description="version of the language")
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", description="lower-case letters, digits, `.`, `_`, `-`")
    about: About | None = Field(None, description="shown, never interpreted")
    vocab_size: Positive = Field(description="rows of the token table, V")
    context_length: Positive | None = Field(None, description="rows of a position table; the longest run elsewhere")
    d_model: Positive = Field(description="width of the residual stream, D")
    dtype: Literal["float32", "bfloat16", "float16"] = Field("float32", description="of the stored weights")
    norm: Norm = Field(description="the model's norm: every norm site starts from it")
    embedding: Embedding = Field(Embedding.model_construct(), description="tokens to vectors")
    encoder: Stack | None = Field(None, description="a stack that sees both sides")
    decoder: Stack | None = Field(
        None, description="a stack that sees the past; beside an encoder it has cross attention"
    )
    head: Head = Field(description="what is read off the last layer")
    dropout: Dropout = Field(Dropout.model_construct(), description="while training")
    init: Init = Field(NormalInit.model_construct(), description="of fresh weights")
    expect: Expect | None = Field(None, description="totals to meet")

    def stacks(self) -> dict[str, Stack]:
        """Name -> stack, the encoder first."""
        return {name: s for name, s in (("encoder", self.encoder), ("decoder", self.decoder)) if s is not None}
