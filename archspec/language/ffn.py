"""The feed-forward sublayer: plain, gated, or a mixture of experts."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from .attention import AllOrNone, Sublayer
from .base import Absent, Node, Number, Positive, PositiveFloat, Quotient, shape_of, tagged
from .norms import MaybeNorm

Activation = Literal[
    "relu",
    "relu_squared",
    "gelu",
    "gelu_tanh",
    "gelu_tanh_8",
    "quick_gelu",
    "silu",
    "mish",
    "tanh",
    "sigmoid",
    "identity",
]
#: xielu has two parameters of its own in each network.
FfnActivation = Literal[Activation, "xielu"]


class Ratio(Node):
    """ceil(ratio · d_model / multiple_of) · multiple_of"""

    ratio: Quotient = Field(description="of d_model, a number or a quotient such as 8/3")
    multiple_of: Positive = Field(1, description="round the width up to a multiple of this")


Width = Annotated[Annotated[Positive, Tag("scalar")] | Annotated[Ratio, Tag("mapping")], Discriminator(shape_of)]
MlpBias = Annotated[AllOrNone | Annotated[tuple[Literal["up", "down"], ...], Tag("list")], Discriminator(shape_of)]
GatedBias = Annotated[
    AllOrNone | Annotated[tuple[Literal["gate", "up", "down"], ...], Tag("list")], Discriminator(shape_of)
]


class Mlp(Sublayer):
    """down( activation( up x ) )"""

    kind: Literal["mlp"] = "mlp"
    width: Width = Field(description="F, an integer or {ratio: 4}")
    activation: FfnActivation = Field(description="applied elementwise")
    bias: MlpBias = Field(False, description="of both linears, or a list of up, down")
    mid_norm: MaybeNorm = Field(None, description="a norm before down")


class Gated(Sublayer):
    """down( activation( gate x ) · (up x + up_shift) )    (Shazeer 2020, arXiv 2002.05202)"""

    kind: Literal["gated"] = "gated"
    width: Width = Field(description="F, an integer or {ratio: 8/3, multiple_of: 64}")
    activation: FfnActivation = Field(description="of the gate")
    bias: GatedBias = Field(False, description="of all three linears, or a list of gate, up, down")
    mid_norm: MaybeNorm = Field(None, description="a norm before down")
    clamp: Annotated[PositiveFloat | None, Absent] = Field(None, description="gate x ≤ clamp and |up x| ≤ clamp")
    clamp_at: Literal["gate", "activation"] = Field(
        "gate", description="`activation`: activation(gate x) ≤ clamp instead of gate x"
    )
    up_shift: Number = Field(0.0, description="added to up x")


class ExpertGroups(Node):
    """experts in `count` equal groups; only the best `keep` groups may be chosen from"""

    count: Positive = Field(description="of groups; divides experts")
    keep: Positive = Field(description="groups that stay")
    score: Literal["max", "top2_sum"] = Field(description="of a group")


class Router(Node):
    """s = score(linear x); chosen = top_k(s + selection bias); weight = scale · s[chosen] (/ their sum)"""

    score: Literal["softmax", "sigmoid", "sparsemixer"] = Field("softmax", description="of the router's logits")
    within: Annotated[PositiveFloat | None, Absent] = Field(
        None,
        description="sparsemixer: experts count whose logit is this near the best, as a share of max(|logit|, best)",
    )
    normalize: bool = Field(description="divide the chosen weights by their sum")
    scale: Number = Field(1.0, description="of the weights")
    input_scale: Number = Field(1.0, description="of x, before the router's linear")
    bias: bool = Field(False, description="of the router's linear")
    selection_bias: Literal["none", "score", "logit"] = Field(
        "none", description="a buffer that only selects, and where it is added"
    )
    groups: Annotated[ExpertGroups | None, Absent] = Field(None, description="group-limited routing")
    applies_to: Literal["output", "input"] = Field("output", description="what the weight multiplies")


class SharedExpert(Node):
    """an expert that every token takes (n shared experts of width w are one of n·w)"""

    width: Width = Field(description="F of the shared expert")
    gate: Literal["none", "sigmoid"] = Field("none", description="sigmoid: times sigmoid(linear x)")
    clamp: Annotated[PositiveFloat | None, Absent] = Field(None, description="as an expert's; = the expert's")


class LatentExperts(Node):
    """the experts work on norm(down x), `dim` wide, and their sum is widened again"""

    dim: Positive = Field(description="width of the experts' input and output")
    norm: MaybeNorm = Field(None, description="of the narrowed x")


Expert = Annotated[Mlp | Gated, Field(discriminator="kind"), tagged()]


class Moe(Sublayer):
    """sum over the chosen experts of weight_e · expert_e(x), plus shared(x)    (arXiv 1701.06538)"""

    kind: Literal["moe"] = "moe"
    experts: Positive = Field(description="E")
    top_k: Positive = Field(description="experts a token takes")
    expert: Expert = Field(description="an mlp or gated ffn")
    router: Router = Field(description="how experts are chosen and weighted")
    shared: Annotated[SharedExpert | None, Absent] = Field(None, description="an expert every token takes")
    latent: Annotated[LatentExperts | None, Absent] = Field(None, description="experts narrower than d_model")
    expert_norm: MaybeNorm = Field(None, description="a norm of each expert's output, one for all of them")


Ffn = Annotated[Mlp | Gated | Moe, Field(discriminator="kind"), tagged()]
MaybeFfn = Annotated[Ffn | None, Absent]
