"""archspec: a declarative architecture compiler for Transformers.

    import archspec

    arch = archspec.load("gpt2")                 # a zoo name, a path, or a folder that `archspec build` wrote
    arch.count(batch=1, length=1024).parameters  # exact, without torch
    model = arch.build()                         # an ordinary torch.nn.Module
    arch.export("gpt2-onnx")                     # ONNX, verified against PyTorch
    archspec.Runtime.load("gpt2-onnx")           # ONNX Runtime, CPU or CUDA

Everything is imported when it is first used: reading and counting a spec never imports torch or onnx.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from archspec.api import Arch as Arch
    from archspec.api import load as load
    from archspec.api import zoo as zoo
    from archspec.compiler.count import Counts as Counts
    from archspec.diagnostics import Diagnostic as Diagnostic
    from archspec.errors import ArchspecError as ArchspecError
    from archspec.errors import BudgetError as BudgetError
    from archspec.errors import DeviceError as DeviceError
    from archspec.errors import SpecError as SpecError
    from archspec.errors import UsageError as UsageError
    from archspec.errors import VerificationError as VerificationError
    from archspec.errors import WeightsError as WeightsError
    from archspec.exporters.runtime.session import Runtime as Runtime

_WHERE = {
    "Arch": "archspec.api",
    "load": "archspec.api",
    "zoo": "archspec.api",
    "Counts": "archspec.compiler.count",
    "Diagnostic": "archspec.diagnostics",
    **dict.fromkeys(
        (
            "ArchspecError",
            "BudgetError",
            "DeviceError",
            "SpecError",
            "UsageError",
            "VerificationError",
            "WeightsError",
        ),
        "archspec.errors",
    ),
    "Runtime": "archspec.exporters.runtime.session",
}
__all__ = [*_WHERE, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'archspec' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
