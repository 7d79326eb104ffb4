"""The habits every construct of the language shares: strict frozen nodes, tagged unions, `none`, and scales."""

import re
from collections.abc import Mapping
from fractions import Fraction
from math import sqrt
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

Positive = Annotated[int, Field(gt=0, le=10**15)]
NonNegative = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0, le=1e30, allow_inf_nan=False)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, lt=1)]


class Node(BaseModel):
    """One construct: unknown keys are errors, nothing is coerced, and a value is a constant that hashes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


def tagged(default: str | None = None) -> BeforeValidator:
    """Reads `gelu` as `{kind: gelu}`; a missing kind is `default` where one kind is meant by everyone."""

    def expand(value: Any) -> Any:
        if isinstance(value, str):
            return {"kind": value}
        if default and isinstance(value, Mapping) and "kind" not in value:
            return {"kind": default, **value}
        return value

    return BeforeValidator(expand)


#: `none` in the text, None in Python: the optional thing is not there.
Absent = BeforeValidator(lambda value: None if value == "none" else value)

# ------------------------------------------------------------------------------------------------------------- scales

_NAMES = ("d_model", "head_dim", "layers")
_TERM = rf"(?:[0-9]+(?:\.[0-9]*)?(?:e[-+]?[0-9]+)?|{'|'.join(_NAMES)})"
_SCALE = re.compile(rf"^(?:(?P<over>{_TERM})/)?(?:sqrt\((?P<root>{_TERM})\)|(?P<plain>{_TERM}))$")


def _scale(value: float | str) -> float | str:
    if isinstance(value, str) and not _SCALE.match(value.replace(" ", "")):
        raise ValueError(
            "a scale is a number, or [n/]x or [n/]sqrt(x), where x is a number, d_model, head_dim or layers"
        )
    return value


_BY_TYPE = Discriminator(lambda v: "text" if isinstance(v, str) else "number")

#: A number, or one quotient as the field writes it: `sqrt(d_model)`, `1/sqrt(256)`, `256/d_model`, `1.4/sqrt(layers)`.
Scale = Annotated[Annotated[Number, Tag("number")] | Annotated[str, AfterValidator(_scale), Tag("text")], _BY_TYPE]


def scale_names(scale: float | str) -> set[str]:
    """The names a scale reads."""
    return {name for name in _NAMES if isinstance(scale, str) and name in scale}


def scale_value(scale: float | str, **names: int) -> float:
    """The number a scale means where `d_model`, `head_dim` and `layers` have these values.

    >>> scale_value("1/sqrt(head_dim)", head_dim=64)
    0.125
    """
    if not isinstance(scale, str):
        return float(scale)
    match = _SCALE.match(scale.replace(" ", ""))
    assert match, scale  # validated by the schema

    def term(text: str) -> float:
        return float(names[text]) if text in _NAMES else float(text)

    below = sqrt(term(match["root"])) if match["root"] else term(match["plain"])
    return term(match["over"]) / below if match["over"] else below


_DECIMAL = r"[0-9]{1,15}(?:\.[0-9]{0,15})?"
_QUOTIENT = re.compile(rf"^({_DECIMAL})/({_DECIMAL})$")


def ratio_value(ratio: object) -> Fraction | None:
    """What a ratio means, exactly: a number as it is written in decimals, or a quotient of two. None where it is no ratio.

    >>> ratio_value("8/3")
    Fraction(8, 3)
    """
    if isinstance(ratio, str):
        match = _QUOTIENT.match(ratio.replace(" ", ""))
        above, below = map(Fraction, match.groups()) if match else (0, 0)
        return Fraction(above, below) if above and below else None
    number = isinstance(ratio, int | float) and not isinstance(ratio, bool) and 0 < ratio <= 1e30
    return Fraction(str(ratio)) if number else None


def _ratio(value: str) -> str:
    if ratio_value(value) is None:
        raise ValueError("a ratio is a number above 0, or a quotient of two such as 8/3")
    return value


#: A number above 0, or a quotient of two: `4`, `8/3`.
Quotient = Annotated[
    Annotated[PositiveFloat, Tag("number")] | Annotated[str, AfterValidator(_ratio), Tag("text")], _BY_TYPE
]


def shape_of(value: Any) -> str:
    """Chooses a union member by YAML shape, so that one mistake is one error."""
    if isinstance(value, list | tuple):
        return "list"
    if isinstance(value, Mapping | BaseModel):
        return "mapping"
    return "scalar"
