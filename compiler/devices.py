"""What devices can do, by their makers' data sheets: memory, its bandwidth, and products a second."""

from __future__ import annotations

import re

from archspec.diagnostics import listing, nearest
from archspec.errors import UsageError
from archspec.ops.record import Record

from .fits import bytes_of
from .precision import Compute


class Device(Record):
    """A device. Memory in bytes, bandwidth in bytes a second, dense products in FLOP/s: in 16 bits with sums in float32."""

    title: str
    memory: int
    bandwidth: float
    fp32: float
    #: fp16 and bf16; bf16 apart where it has none.
    half: float
    bf16: bool = True

    def peak(self, compute: Compute) -> float:
        """FLOP/s in a type of numbers. Raises UsageError for one that it does not compute in."""
        if compute == "bf16" and not self.bf16:
            raise UsageError(f"{self.title} does not compute in bf16.", "say fp16, or fp32")
        return self.fp32 if compute == "fp32" else self.half


def _device(title: str, gb: int, gbs: float, fp32: float, half: float, bf16: bool = True) -> Device:
    """Gigabytes of memory, which are of 2³⁰ bytes where memory is sold; and of 10⁹ a second; TFLOP/s."""
    return Device(title, gb << 30, gbs * 1e9, fp32 * 1e12, half * 1e12, bf16)


#: Name -> device. Figures without sparsity, of float32 those outside of tensor cores: that is float32 as it is spelt.
DEVICES = {
    "t4": _device("NVIDIA T4", 16, 320, 8.1, 65, bf16=False),
    "v100": _device("NVIDIA V100 SXM2", 32, 900, 15.7, 125, bf16=False),
    "a10": _device("NVIDIA A10", 24, 600, 31.2, 125),
    "a100-40gb": _device("NVIDIA A100 SXM, 40 GB", 40, 1555, 19.5, 312),
    "a100": _device("NVIDIA A100 SXM, 80 GB", 80, 2039, 19.5, 312),
    "l4": _device("NVIDIA L4", 24, 300, 30.3, 121),
    "l40s": _device("NVIDIA L40S", 48, 864, 91.6, 362),
    "rtx-3090": _device("NVIDIA RTX 3090", 24, 936, 35.6, 71),
    "rtx-4090": _device("NVIDIA RTX 4090", 24, 1008, 82.6, 165.2),
    "rtx-5090": _device("NVIDIA RTX 5090", 32, 1792, 104.8, 209.5),
    "h100-pcie": _device("NVIDIA H100 PCIe", 80, 2000, 51, 756),
    "h100": _device("NVIDIA H100 SXM", 80, 3350, 67, 989.4),
    "h200": _device("NVIDIA H200 SXM", 141, 4800, 67, 989.4),
    "b200": _device("NVIDIA B200", 180, 8000, 75, 2250),
    "mi300x": _device("AMD MI300X", 192, 5300, 163.4, 1307.4),
}


def device(text: str) -> Device:
    """A device by its name, or by what it can do: `24GiB,58GB/s,200GFLOPS`. Raises UsageError for another one."""
    if text.lower() in DEVICES:
        return DEVICES[text.lower()]
    parts = text.replace(" ", "").split(",")
    if len(parts) != 3:
        near = nearest(text.lower(), sorted(DEVICES))
        known = f"did you mean {near}?" if near else f"there are {listing(DEVICES)}"
        raise UsageError(f"There is no device {text!r}.", f"{known}\nor say what it can do: 24GiB,58GB/s,200GFLOPS")
    bandwidth, peak = (_rate(part, unit) for part, unit in zip(parts[1:], ("B/s", "FLOPS"), strict=True))
    return Device(text, bytes_of(parts[0]), bandwidth, peak, peak)


def _rate(text: str, unit: str) -> float:
    """`58GB/s` of the unit B/s: 58 · 10⁹."""
    found = re.fullmatch(rf"([0-9]+(?:\.[0-9]+)?)([kKMGTP]?){re.escape(unit)}", text)
    if not found or not float(found[1]):
        raise UsageError(f"{text!r} is no number of {unit}.", f"such as {'58GB/s' if unit == 'B/s' else '200GFLOPS'}")
    return float(found[1]) * 1000.0 ** " KMGTP".index(found[2].upper() or " ")
