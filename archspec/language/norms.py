"""Norms: the same at every site where one may stand. `weight: 1+w` is learned from 0, `w` from 1."""

from typing import Annotated, Literal

from pydantic import Field

from .base import Absent, Node, PositiveFloat, tagged

Weight = Literal["w", "1+w", "none"]


class LayerNorm(Node):
    """(x - mean x) / sqrt(var x + eps) · weight + bias    (Ba et al. 2016, arXiv 1607.06450)"""

    kind: Literal["layernorm"] = "layernorm"
    eps: PositiveFloat = Field(1e-5, description="added to the variance")
    weight: Weight = Field("w", description="`w` learned from 1, `1+w` learned from 0, `none`")
    bias: bool = Field(True, description="a learned shift, from 0")
    eps_outside: bool = Field(False, description="divide by (std + eps) instead of sqrt(var + eps)")


class RMSNorm(Node):
    """x / sqrt(mean x² + eps) · weight    (Zhang and Sennrich 2019, arXiv 1910.07467)"""

    kind: Literal["rmsnorm"] = "rmsnorm"
    eps: PositiveFloat = Field(1e-5, description="added to the mean square")
    weight: Weight = Field("w", description="`w` learned from 1, `1+w` learned from 0, `none`")
    weight_first: bool = Field(False, description="norm x · weight, instead of weighing the normed x")


class L2Norm(Node):
    """x / max(‖x‖, eps)"""

    kind: Literal["l2norm"] = "l2norm"
    eps: PositiveFloat = Field(1e-12, description="the smallest divisor")


Norm = Annotated[LayerNorm | RMSNorm | L2Norm, Field(discriminator="kind"), tagged()]
MaybeNorm = Annotated[Norm | None, Absent]
