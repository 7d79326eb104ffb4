"""What stands beside the graphs of a folder for other programs: the tokenizer's files, genai_config.json, config.json."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx_ir as ir

from archspec.compiler.precision import TORCH, Precision
from archspec.errors import UsageError, WeightsError
from archspec.exporters.weights.form import config_text, family_named, form_of
from archspec.exporters.weights.special import generation_config, special_ids, special_tokens
from archspec.ops.model import Model

from .genai import GENAI, genai_config, unfit

CONFIG = "config.json"


@dataclass(frozen=True)
class Beside:
    """What comes with the weights: what brings a tokenizer's files into a folder, and the checkpoint's config, or GGUF's."""

    bring: Callable[[Path], object] | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)


def write_beside(
    folder: Path,
    model: Model,
    stepping: ir.Model | None,
    file: str,
    beside: Beside,
    context_length: int | None,
    precision: Precision,
) -> dict[str, str]:
    """Write what other programs read, where it says this model exactly. Returns: a file that was not written -> why.

    stepping: the graph that steps through a text, and `file` where it stands.
    """
    left_out = {}
    if beside.bring:
        try:
            beside.bring(folder)
        except WeightsError as error:  # the weights are good without
            left_out["tokenizer.json"] = error.message
        except OSError as error:
            if error.filename is None or Path(error.filename).parent == folder:
                raise  # it could not be written
            raise UsageError(f"{error.filename} cannot be read: {error.strerror}.", "may you read it?") from error
    if reason := unfit(model, stepping.graph if stepping else None, context_length):
        left_out[GENAI] = reason
    else:
        assert stepping is not None
        assert context_length is not None
        special, sampling = special_tokens(folder, beside.origin), generation_config(folder)
        content = genai_config(model, stepping.graph, file, context_length, special, sampling)
        (folder / GENAI).write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    try:
        _, config = form_of(model, context_length, family_named(beside.origin))
    except WeightsError as error:
        left_out[CONFIG] = error.message.splitlines()[0]
    else:
        special_of_config = special_ids(beside.origin) | special_ids(generation_config(folder))
        (folder / CONFIG).write_text(config_text(config, special_of_config, TORCH[precision.compute]), "utf-8")
    return left_out
