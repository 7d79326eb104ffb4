"""genai_config.json: what onnxruntime-genai (0.18) has to know to run an exported decoder as it stands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from archspec.exporters.weights.special import SpecialTokens
from archspec.ops.attention import Attention
from archspec.ops.base import walk
from archspec.ops.head import LmHead
from archspec.ops.model import Model

GENAI = "genai_config.json"
#: Its name for a decoder that is nothing in particular.
KIND = "decoder"
INPUTS = ("input_ids", "attention_mask")
Caches = Mapping[int, Mapping[str, ir.Shape]]
"""Layer -> key and value -> B heads rows width."""


def unfit(model: Model, graph: ir.Graph | None, context_length: int | None) -> str | None:
    """Why onnxruntime-genai cannot run the graph that steps through a text; None: it can."""
    if model.form != "decoder":
        return f"it runs decoders, and this is an {model.form.replace('_', '-')}"
    if not isinstance(model.head, LmHead) or graph is None:
        return "it generates text, and this model has no lm head"
    if context_length is None:
        return "it must know how long a text may be, and the spec states no context_length"
    others = [str(v.name) for v in graph.inputs if v.name not in INPUTS and not str(v.name).startswith("past.")]
    if others:
        return f"it has nothing to give for the input {others[0]}"
    caches = _caches(graph)
    if not caches:
        return "it keeps caches of keys and values, and there are none"
    for layer, slots in caches.items():
        if set(slots) != {"key", "value"}:
            return f"it keeps keys and values, and layer {layer} remembers {', '.join(slots)}"
        if list(slots["key"])[1::2] != list(slots["value"])[1::2]:
            return f"it keeps keys and values of one shape, and those of layer {layer} differ"
    if _windows(caches) and not _in_buffers(caches):
        return "windows that are kept in buffers stand beside caches that grow"
    return None


def genai_config(
    model: Model, graph: ir.Graph, file: str, context_length: int, special: SpecialTokens, sampling: Mapping[str, Any]
) -> dict[str, Any]:
    """The content of genai_config.json for a graph that is not `unfit`.

    special: genai demands an end token; where none is known it is the vocabulary's last. Padding that is not known is -1,
    which no text holds. sampling: `temperature`, `top_k` and `top_p` for whoever asks for samples.
    """
    caches = _caches(graph)
    _, heads, _, width = next(iter(caches.values()))["key"]
    assert isinstance(model.head, LmHead)
    attention = next(op for _, op, _ in walk(model) if isinstance(op, Attention))
    eos = list(special.eos) or [model.head.vocab - 1]
    decoder: dict[str, Any] = {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        "filename": file,
        "head_size": width,
        "hidden_size": model.main[1].embedding.width,
        "num_attention_heads": attention.heads,
        "num_key_value_heads": heads,
        "num_hidden_layers": len(caches),
        "inputs": {name: name for name in INPUTS}
        | {f"past_{kind}_names": f"past.%d.{kind}" for kind in ("key", "value")},
        "outputs": {"logits": "logits"} | {f"present_{kind}_names": f"present.%d.{kind}" for kind in ("key", "value")},
    }
    if windows := _windows(caches):
        decoder["sliding_window"] = {
            "window_size": max(windows.values()),  # a buffer may be longer than its layer's own window
            "slide_key_value_cache": False,
            "slide_inputs": False,
            "layers": list(windows),
        }
    return {
        "model": {
            "type": KIND,
            "bos_token_id": eos[0] if special.bos is None else special.bos,
            "eos_token_id": eos,
            "pad_token_id": special.pad if special.pad is not None else special.eos[0] if special.eos else -1,
            "context_length": context_length,
            "vocab_size": model.head.vocab,
            "decoder": decoder,
        },
        "search": {
            "do_sample": False,
            "max_length": context_length,
            "past_present_share_buffer": _in_buffers(caches),
            **{name: sampling[name] for name in ("temperature", "top_k", "top_p") if sampling.get(name) is not None},
        },
    }


def _caches(graph: ir.Graph) -> dict[int, dict[str, ir.Shape]]:
    caches: dict[int, dict[str, ir.Shape]] = {}
    for value in graph.inputs:
        if match := re.fullmatch(r"past\.(\d+)\.(\w+)", str(value.name)):
            assert value.shape is not None
            caches.setdefault(int(match[1]), {})[match[2]] = value.shape
    return caches


def _in_buffers(caches: Caches) -> bool:
    """Is every cache a buffer that a call writes into, rather than one that grows?"""
    return all(str(shape[2]).startswith("capacity") for slots in caches.values() for shape in slots.values())


def _windows(caches: Caches) -> dict[int, int]:
    """Layer -> its window, where the kernel keeps one in a buffer."""
    rows = {layer: str(slots["key"][2]).partition("_") for layer, slots in caches.items() if "key" in slots}
    return {layer: int(window) for layer, (kind, _, window) in rows.items() if kind == "capacity" and window}
