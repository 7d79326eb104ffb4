"""`archspec import`: a checkpoint's config as a spec, written as a person would write it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from archspec.compiler.lower import lower
from archspec.compiler.resolve import resolve_text
from archspec.compiler.show import written_out
from archspec.compiler.source import zoo_names
from archspec.diagnostics import listing, nearest
from archspec.errors import ArchspecError, UsageError, WeightsError

from .config import Ledger, shown
from .families import all_families
from .maps import Family, Format
from .source import Checkpoint, open_weights, read_json
from .unsaid import UNSAID

#: The order of keys in a spec.
ORDER = (
    "vocab_size", "context_length", "d_model", "dtype", "norm", "embedding", "block", "encoder", "decoder", "head", "dropout",
    "init",
)  # fmt: skip
STACK_ORDER = (
    "layers",
    "final_norm",
    "norm",
    "placement",
    "parallel",
    "residual",
    "attention",
    "cross_attention",
    "ffn",
)


def spec_of(path: str | Path, allow_ignored: Collection[str] = ()) -> str:
    """The spec, as YAML, of a folder with a config.json, of a config.json, or of a GGUF file.

    allow_ignored: keys of the config (inner ones as `outer.inner`) that may stay unread.
    Raises `WeightsError` where there is no family for it, where the config says what the family or the language does not have,
    and where keys were left that nothing has read; `UsageError` where there is nothing to read.
    """
    path = Path(path)
    values, weights, form = _opened(path)
    family = family_of(values, form, path)
    assert family.read is not None
    ledger = Ledger(values, weights)
    try:
        stated = family.read(ledger)
    except WeightsError as error:
        raise WeightsError(f"{path}: {error.message}", error.remedy) from None
    except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
        raise WeightsError(
            f"{path}: a value is not of the kind that the {family.name} map reads ({type(error).__name__}: {error}).",
            "compare it with a config.json that transformers wrote",
        ) from error
    unread = sorted(set(ledger.unread()) - set(allow_ignored)) if form != "gguf" else []
    if unread:
        told = ", ".join(f"{key}: {_value(values, key)}" for key in unread)
        message = f"{path}: the {family.name} map does not know what to make of {told}."
        flags = " ".join(f"--allow-ignored {key}" for key in unread)
        raise WeightsError(message, f"if it changes nothing for this model: {flags}")
    text = written_out(_ordered(stated, _name(path, values), _origin(path, values)))
    lower(resolve_text(text, "the imported spec").spec)
    return text


def family_of(values: Mapping[str, Any], form: Format, path: Path) -> Family:
    """The family that a config names."""
    kind = values.get("model_type") or values.get("general.architecture")
    readable = [f for f in all_families() if f.format == form and f.read]
    for family in readable:
        if kind in family.types:
            return family
    if not isinstance(kind, str):
        raise WeightsError(f"{path} does not say what it is: there is no model_type.")
    if kind in UNSAID and form == "huggingface":
        raise WeightsError(f"{path}: the language cannot say `{kind}` yet: {UNSAID[kind]}.")
    guess = nearest(str(kind), sorted({t for f in readable for t in f.types}))
    near = f"the nearest name is `{guess}`; " if guess else ""
    zoo = _of_the_zoo(kind)
    known = f"the zoo has {listing(zoo[:4])}: `archspec show {zoo[0]}`\n" if zoo else ""
    raise WeightsError(
        f"{path}: there is no family for `{kind}`.", f"{known}{near}docs/families.md lists those there are"
    )


def _of_the_zoo(kind: str) -> list[str]:
    """The specs of the zoo that bear the name of a model_type, with a size or without: `kimi-k2` of kimi_k2."""
    named = re.compile(re.escape(kind.lower().replace("_", "-")) + r"(-(\d[\d.]*[bm]\b.*|small|base|large))?")
    return [name for name in zoo_names() if named.fullmatch(name)]


def _opened(path: Path) -> tuple[Mapping[str, Any], Checkpoint | None, Format]:
    """(config or metadata, the weights where they are there, format)"""
    if path.suffix == ".gguf":
        weights = open_weights(path)
        return weights.metadata, weights, "gguf"
    if path.is_dir() and not (path / "config.json").is_file():
        ggufs = sorted(path.glob("*.gguf"))
        if len(ggufs) == 1:
            return _opened(ggufs[0])
        raise UsageError(f"{path} has no config.json.", "a checkpoint's folder, a config.json or a .gguf file")
    file = path / "config.json" if path.is_dir() else path
    if not file.is_file():
        raise UsageError(f"There is no {path}.", "a checkpoint's folder, a config.json or a .gguf file")
    return read_json(file), _weights_of(path) if path.is_dir() else None, "huggingface"


def _weights_of(folder: Path) -> Checkpoint | None:
    """A folder's weights; none where there are none that can be read: its config says most of it."""
    try:
        return open_weights(folder)
    except ArchspecError:
        return None


def _value(values: Mapping[str, Any], key: str) -> str:
    value: Any = values
    for step in key.split("."):
        value = value[step]
    return shown(value)


def _name(path: Path, values: Mapping[str, Any]) -> str:
    """From where it was published, its folder, or its family."""
    kind = str(values.get("model_type") or values.get("general.architecture"))
    folder = path if path.is_dir() else path.parent
    stem = path.stem if path.suffix == ".gguf" else folder.resolve().name if path.is_dir() else kind
    text = re.sub(r"[^a-z0-9._-]+", "-", (_published(values) or stem).split("/")[-1].lower()).strip("-._")
    return text or kind


def _published(values: Mapping[str, Any]) -> str | None:
    """`owner/name` where the config says it."""
    name = values.get("_name_or_path")
    return name if isinstance(name, str) and re.fullmatch(r"[\w.-]+/[\w.-]+", name) else None


def _origin(path: Path, values: Mapping[str, Any]) -> str:
    if path.suffix == ".gguf":
        return path.name
    folder = path.resolve().name if path.is_dir() else path.resolve().parent.name
    return f"config.json of {_published(values) or folder}"


def _ordered(stated: Mapping[str, Any], name: str, origin: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"archspec": 1, "name": name, "about": {"source": origin}}
    spec |= {key: stated[key] for key in sorted(stated, key=ORDER.index)}
    for stack in ("block", "encoder", "decoder"):
        if stack in spec:
            keys = spec[stack]
            # a number of layers is said first, a list of them last
            last = ("layers",) if isinstance(keys.get("layers"), list) else ()
            order = sorted(keys.keys() - last, key=STACK_ORDER.index)
            spec[stack] = {key: keys[key] for key in (*order, *last)}
    return spec
