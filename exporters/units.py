"""Numbers as people read them. Counts are decimal (M = 10⁶), bytes binary (GiB = 2³⁰), and the unit is always written."""

from __future__ import annotations


def exact(n: int) -> str:
    """124,439,808"""
    return f"{n:,}"


def short(n: int | float) -> str:
    """124.4M: three to four significant digits, powers of a thousand."""
    return _scaled(float(n), 1000.0, ("", "k", "M", "B", "T"), "")


def flops(n: int | float) -> str:
    """291.6 GFLOP"""
    return _scaled(float(n), 1000.0, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP"), " ")


def size(n: int | float) -> str:
    """474.7 MiB"""
    return _scaled(float(n), 1024.0, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"), " ")


def many(n: int, thing: str) -> str:
    """1 token, 1,024 tokens"""
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


def share(x: float) -> str:
    """31.0 %"""
    return f"{100 * x:.1f} %"


def _scaled(n: float, base: float, units: tuple[str, ...], gap: str) -> str:
    i = 0
    while n >= base * 0.99995 and i < len(units) - 1:
        n, i = n / base, i + 1
    number = f"{n:.0f}" if i == 0 else f"{n:.1f}" if n < 1000 else f"{n:,.0f}"
    return f"{number}{gap}{units[i]}"
