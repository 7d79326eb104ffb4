"""Every name in the tables of `elsewhere`: what its remedy says, done once, leaves nothing to be said."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from test_remedies import ATTENTION, FFN, HEAD, MOE, NORM, ROPE, SPEC

from archspec.compiler import elsewhere
from archspec.compiler.compose import compose
from archspec.compiler.nodes import Node, Report
from archspec.compiler.resolve import resolve_text
from archspec.compiler.show import written_out
from archspec.compiler.source import Source
from archspec.diagnostics import Diagnostic
from archspec.errors import SpecError

TWO = f"""archspec: 1
name: two
vocab_size: 1000
context_length: 128
d_model: 64
{NORM}
block:
  attention: {ATTENTION}
  ffn: {FFN}
encoder: {{layers: 2}}
decoder: {{layers: 2}}
{HEAD}
"""
#: For each key of the tables a value that fits everywhere; for a `…` too.
GOOD = {
    "vocab_size": "500", "context_length": "64", "d_model": "32", "dtype": "float16", "layers": "3", "repeat": "3",
    "placement": "true", "parallel": "true", "branch_scale": "0.5", "attention": ATTENTION, "heads": "8", "kv_heads": "2",
    "head_dim": "16", "bias": "true", "scale": "0.5", "softcap": "30", "clip": "8", "qk_norm": "true", "window": "16",
    "position": "none", "theta": "1e6", "dim": "8", "scaling": "{kind: linear, factor: 2}", "original_context": "32",
    "low_frequency": "1", "high_frequency": "3", "kind": "linear", "cross_attention": "{heads: 4}", "ffn": FFN, "width": "64",
    "activation": "gelu", "experts": "4", "top_k": "2", "normalize": "true", "score": "sigmoid", "eps": "1e-5",
    "embedding": "{scale: 2}", "token_types": "2", "tied": "false", "residual": "0.1", "std": "0.1",
    "expert": FFN, "router": "{normalize: true}", "norm": "rmsnorm",
}  # fmt: skip
#: Values where one name wants another than its key.
APART = {
    "multi_query": "true", "mqa": "true", "partial_rotary_factor": "0.5", "rotary_pct": "0.5", "norm_placement": "post",
    "norm_position": "post",
}  # fmt: skip
RAMP = "{kind: rope, scaling: {kind: ramp, factor: 2, original_context: 64}}"


def written() -> Iterator[tuple[str, str, str]]:
    """Every name of the tables: (spec, path of the mapping it stands in, `name: value`)."""
    for goal, names in elsewhere.PLACES.items():
        last = goal.split(".")[-1]
        for name in names.split():
            section, _, word = name.rpartition(".")
            dropped = goal.startswith("dropout.")
            value = "0.1" if dropped else APART.get(word, GOOD[last])
            base = SPEC.replace(ROPE, f"position: {RAMP}") if goal.startswith("scaling.") else SPEC
            base = base.replace("layers: 2", "layers: [{repeat: 2}]") if section == "entry" else base
            base = (
                base.replace("kind: ramp, ", "").replace(", original_context: 64", "")
                if goal == "scaling.kind"
                else base
            )
            yield (TWO if goal.startswith(("encoder", "decoder", "cross")) else base), section, f"{word}: {value}"
            if "moe" in goal and not section:
                yield SPEC.replace(FFN, MOE), "", f"{word}: {value}"
            if goal.startswith("norm") and not section:
                yield SPEC.replace(f"{NORM}\n", ""), "", f"{word}: {value}"


def tree(text: str) -> Any:
    return plain_values(compose(Source("spec.yaml", text), Report()))


def plain_values(node: Node) -> Any:
    value = node.value
    if isinstance(value, dict):
        return {key: plain_values(child) for key, child in value.items()}
    return [plain_values(child) for child in value] if isinstance(value, list) else value


def mapping_of(spec: Any, name: str) -> dict[str, Any]:
    """The mapping that a remedy means by a name."""
    if name in ("", "spec"):
        return spec
    if name == "block":
        return spec["decoder"]
    if name == "entry":
        return spec["decoder"]["layers"][0]
    inside = [spec]
    for part in inside:
        if isinstance(part, dict):
            if isinstance(part.get(name), dict):
                return part[name]
            inside += part.values()
    raise AssertionError(name)


def filled(value: str) -> str:
    """Where a remedy leaves a value open, one that fits."""
    value = value.replace("kind: …, eps", "kind: rmsnorm, eps").replace("kind: …, ", "kind: gated, ")
    return re.sub(r"(\w+): …", lambda open_: f"{open_[1]}: {GOOD[open_[1]]}", value)


def follow(spec: Any, section: str, key: str, remedy: str) -> None:
    """Do what a remedy says of a key in a section."""
    here = mapping_of(spec, section)
    value = here.pop(key)
    if renamed := re.match(r"did you mean `(\w+)`\?", remedy):
        here[renamed[1]] = value
        return
    if remedy.startswith("remove the line"):
        return
    said = re.match(r"write `(\w+): (.*?)`(?: under `(\w+):`| (at the top))?(?: of the spec)?(?:;|$)", remedy)
    assert said, remedy
    home = spec if said[4] else mapping_of(spec, said[3]) if said[3] else here
    home[said[1]] = tree(filled(f"{said[1]}: {said[2]}"))[said[1]]


@pytest.mark.parametrize(
    ("text", "section", "line"), list(written()), ids=lambda one: one if "\n" not in one else "spec"
)
def test_every_name_of_the_tables_leads_to_a_spec(text, section, line):
    """In a file: what the remedy says, done once, leaves nothing to be said."""
    spec = tree(text)
    if section == "position" and not isinstance(spec["decoder"]["attention"]["position"], dict):
        spec["decoder"]["attention"]["position"] = {"kind": "rope"}
    if section in ("dropout", "embedding", "residual"):
        spec[section] = {}
    key = line.partition(":")[0]
    mapping_of(spec, section).update(tree(line))
    found = refused(written_out(spec))
    assert [(d.code, f"`{key}`" in d.message) for d in found] == [("A101", True)]
    follow(spec, section, key, found[0].remedy or "")
    assert refused(written_out(spec)) == ()


@pytest.mark.parametrize(
    ("text", "line"),
    [(text, line) for text, section, line in written() if not section],
    ids=lambda one: one if "\n" not in one else "",
)
def test_and_so_on_the_command_line(text, line):
    text = text.replace("d_model: 64\nd", f"d_model: 64\n{NORM}\nd")  # what --set changes is a spec already
    name, _, value = line.partition(": ")
    found = refused(text, [f"{name}={value}"])
    assert [d.code for d in found] == ["A023"]
    remedy = found[0].remedy or ""
    if renamed := re.match(r"did you mean `(\w+)`\?", remedy):
        steps = [f"{renamed[1]}={value}"]
    else:
        said = re.match(r"write `--set (.*?)`(?:;|$)", remedy)
        assert said, remedy
        last = said[1].partition("=")[0].strip("'").split(".")[-1]
        steps = shlex.split(filled(said[1].replace("=…", f"={GOOD.get(last)}")))
    assert refused(text, steps) == ()


def refused(text: str, overrides: Sequence[str] = ()) -> tuple[Diagnostic, ...]:
    try:
        resolve_text(text, overrides=overrides)
    except SpecError as error:
        return error.diagnostics
    return ()
