"""What is installed here and what works: facts for `archspec doctor`, each with what to do where something is missing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "missing", "note"]

#: The parts that archspec is made of, by the names of their distributions.
PARTS = (
    "pydantic", "PyYAML", "click", "rich", "numpy", "torch", "onnx", "onnx-ir", "graphviz", "safetensors", "tokenizers",
    "gguf", "jinja2",
)  # fmt: skip
#: What archspec does without, and what each is for. genai's wheel demands onnxruntime, which would overwrite onnxruntime-gpu.
OPTIONAL = {
    "transformers": ("loads what `build --as hf` writes", "pip install transformers"),
    "onnxruntime-genai": ("runs exported decoders too", "pip install --no-deps onnxruntime-genai"),
}


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of the report. `missing` keeps something from working; `note` is worth knowing and no fault."""

    topic: Literal["system", "packages", "optional", "graphviz", "onnxruntime", "cuda"]
    name: str
    value: str
    state: State = "ok"
    remedy: str | None = None


def doctor() -> list[Fact]:
    """All facts, in the order in which to read them. Providers are tried, not asked: it takes about a second."""
    return [*_system(), *_packages(), *_optional(), _dot(), *_runtime()]


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _system() -> list[Fact]:
    return [
        Fact("system", "python", f"{platform.python_version()} ({sys.executable})"),
        Fact("system", "platform", platform.platform()),
        Fact("system", "cpu", f"{os.cpu_count()} cores, {platform.machine()}"),
    ]


def _packages() -> list[Fact]:
    facts = [Fact("packages", "archspec", _version("archspec-compiler") or "not installed: run from a checkout")]
    owners = sorted(set(importlib.metadata.packages_distributions().get("archspec", ())) - {"archspec-compiler"})
    if owners:
        facts.append(
            Fact(
                "packages",
                "another archspec",
                f"{', '.join(owners)} has the same import name and overwrites files of this one",
                "missing",
                f"pip uninstall -y {' '.join(owners)} && pip install --force-reinstall archspec-compiler",
            )
        )
    for part in PARTS:
        version = _version(part)
        if version:
            facts.append(Fact("packages", part, version))
        else:
            facts.append(Fact("packages", part, "not installed", "missing", f"pip install {part}"))
    return facts


def _optional() -> list[Fact]:
    facts = []
    for name, (use, remedy) in OPTIONAL.items():
        version = _version(name)
        absent = Fact("optional", name, f"not installed: it {use}", "note", remedy)
        facts.append(Fact("optional", name, version) if version else absent)
    return facts


def _dot() -> Fact:
    """Graphviz's program, which draws SVG, PNG and PDF; the Python package of that name only calls it."""
    remedy = "apt-get install graphviz, brew install graphviz, or https://graphviz.org/download"
    path = shutil.which("dot")
    if path is None:
        return Fact("graphviz", "dot", "not found: diagrams can be written as DOT and Mermaid only", "missing", remedy)
    try:
        told = subprocess.run([path, "-V"], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Fact("graphviz", "dot", f"{path} does not run: {error}", "missing", remedy)
    return Fact("graphviz", "dot", f"{(told.stderr or told.stdout).strip().removeprefix('dot - ')} ({path})")


def _runtime() -> list[Fact]:
    try:
        import onnxruntime

        from . import device
    except ImportError as error:
        return [Fact("onnxruntime", "import", str(error), "missing", "pip install --force-reinstall onnxruntime-gpu")]
    wheels = device.runtime_wheels()
    facts = [
        Fact("onnxruntime", "onnxruntime", f"{onnxruntime.__version__} ({', '.join(wheels) or 'not from a wheel'})")
    ]
    if len(wheels) > 1:
        text = f"{' and '.join(wheels)} are both installed and overwrite each other's files"
        remedy = f"pip uninstall -y {' '.join(wheels)} && pip install {max(wheels, key=len)}"
        facts.append(Fact("onnxruntime", "onnxruntime wheels", text, "missing", remedy))
    facts.append(Fact("onnxruntime", "compiled-in providers", ", ".join(onnxruntime.get_available_providers()), "note"))
    reason = device.live(device.CPU)
    facts.append(Fact("onnxruntime", device.CPU, reason or "works", "missing" if reason else "ok"))
    state = device.cuda()
    value = f"works: {state.why}" if state.usable else f"does not work: {state.why}"
    facts.append(Fact("onnxruntime", device.CUDA, value, "ok" if state.usable else _absent(), state.remedy))
    return [*facts, *_cuda()]


def _absent() -> State:
    """Where there is no NVIDIA driver, CUDA's absence is no fault of the installation."""
    from .cuda import driver

    return "note" if driver().version is None else "missing"


def _cuda() -> list[Fact]:
    """The parts of CUDA one by one."""
    from .cuda import cuda_major, driver, missing_libraries

    state, major, absent = driver(), cuda_major(), _absent()
    version = "" if state.version is None else f"CUDA {state.version[0]}.{state.version[1]}"
    told = "; ".join(filter(None, (version, state.fault)))
    facts = [Fact("cuda", "driver", told, absent if state.fault else "ok")]
    facts += [Fact("cuda", f"card {i}", card) for i, card in enumerate(state.cards)]
    if major is not None:
        facts.append(Fact("cuda", "wanted", f"CUDA {major}: onnxruntime is built for it", "note"))
    for library in missing_libraries():
        told = "not found" if library.required else "not found: only some kernels need it"
        state_of = absent if library.required else "note"
        facts.append(Fact("cuda", library.name, told, state_of, f"pip install {library.wheel}"))
    return facts
