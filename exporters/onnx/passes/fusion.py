"""What a pass did to a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Fusion:
    """`fused` places became `operator`; `left` stayed in the standard form, by reason."""

    operator: str
    what: str
    fused: int
    left: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        """22 of 24 attentions are GroupQueryAttention; 2: a bias by ALiBi"""
        if not self.fused:
            return "; ".join(f"{n} {self.what} stay as they are: {reason}" for reason, n in self.left.items())
        total = self.fused + sum(self.left.values())
        why = "".join(f"; {n}: {reason}" for reason, n in self.left.items())
        return f"{self.fused} of {total} {self.what} are {self.operator}{why}"
