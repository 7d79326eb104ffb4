"""Polynomials with integer coefficients: how a dimension or a count depends on batch and lengths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

Monomial = tuple[str, ...]


class Poly:
    """A sum of integer · product of names, exact at any size. `Poly.var("B") * 3 + 1` is 3·B + 1."""

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[Monomial, int] | None = None) -> None:
        self.terms = dict(terms or {})

    @staticmethod
    def of(x: Poly | int) -> Poly:
        return x if isinstance(x, Poly) else Poly({(): x} if x else {})

    @staticmethod
    def var(name: str) -> Poly:
        return Poly({(name,): 1})

    @staticmethod
    def product(factors: tuple[Poly | int, ...]) -> Poly:
        """The product of factors, the plain integers among them multiplied first."""
        out = Poly.of(prod(f for f in factors if isinstance(f, int)))
        for f in factors:
            if isinstance(f, Poly):
                out = out * f
        return out

    def __add__(self, other: Poly | int) -> Poly:
        terms = dict(self.terms)
        for m, c in Poly.of(other).terms.items():
            terms[m] = terms.get(m, 0) + c
        return Poly(terms)

    def __mul__(self, other: Poly | int) -> Poly:
        terms: dict[Monomial, int] = {}
        for m, c in self.terms.items():
            for n, d in Poly.of(other).terms.items():
                key = tuple(sorted(m + n))
                terms[key] = terms.get(key, 0) + c * d
        return Poly(terms)

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Poly | int):
            return NotImplemented
        return {m: c for m, c in self.terms.items() if c} == {m: c for m, c in Poly.of(other).terms.items() if c}

    def __hash__(self) -> int:
        return hash(frozenset((m, c) for m, c in self.terms.items() if c))

    def at(self, value: Callable[[str], int]) -> int:
        """The number it is where each name has this value."""
        return sum(c * prod(value(v) for v in m) for m, c in self.terms.items())

    def __str__(self) -> str:
        def term(m: Monomial, c: int) -> str:
            powers = [v if m.count(v) == 1 else f"{v}{'²³⁴'[m.count(v) - 2]}" for v in dict.fromkeys(m)]
            return "·".join(([f"{c:,}"] if c != 1 or not m else []) + powers)

        return " + ".join(term(m, c) for m, c in self.terms.items() if c) or "0"

    __repr__ = __str__
