"""The generated parts of the documents: the tables of docs/language.md, and docs/diagnostics.md.

python scripts/reference.py            rewrite what stands between `<!-- begin: NAME -->` and `<!-- end -->`
python scripts/reference.py --check    say which documents are out of date, and exit 1
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from archspec.compiler.grammar import BLOCK_KEYS, TOP, Owner, Shape, keys_of
from archspec.diagnostics import CODES
from archspec.language.ffn import Activation
from archspec.language.model import Layer, Spec, Stack

ROOT = Path(__file__).resolve().parents[1]
GOLDENS = ROOT / "tests" / "diagnostics"

#: The mappings that only a file has, and the type of the language that describes their keys.
_FILE_ONLY = {"top": Spec, "stack": Stack, "block": Layer, "entry": Layer}
#: Keys that exist before merging alone, so that no type describes them: default, meaning.
_BEFORE_MERGING = {
    "extends": ("–", "a zoo name, or a path (it has a `/` or ends in `.yaml`): begin from that spec"),
    "block": ("–", "what both stacks share; an error where there is one stack"),
    "layers": ("**required**", "a number of equal layers, or a list of entries, first to last"),
    "norm": ("the enclosing norm", "of every norm site in the block"),
}
#: Values that many keys share, and the section that lists them.
_NORMS = frozenset({"layernorm", "rmsnorm", "l2norm"})
_ACTIVATIONS = get_args(Activation)


def main() -> int:
    """Rewrite, or check, every document with generated parts. Returns the exit code."""
    stale = [path for path in documents() if path.read_text() != rewritten(path)]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date: run python scripts/reference.py")
        return 1 if stale else 0
    for path in stale:
        path.write_text(rewritten(path))
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


def documents() -> tuple[Path, ...]:
    """The documents that have generated parts."""
    return (ROOT / "docs" / "language.md", ROOT / "docs" / "diagnostics.md")


def rewritten(path: Path) -> str:
    """The document as it should be."""
    block = re.compile(r"(<!-- begin: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
    return block.sub(lambda m: f"{m[1]}{part(m[2])}{m[3]}", path.read_text())


def part(name: str) -> str:
    """What stands between the markers of this name."""
    parts: dict[str, Callable[[], str]] = {"codes": codes, "diagnostics": diagnostics, "example": example}
    return parts[name]() if name in parts else table(owners()[name])


# ------------------------------------------------------------------------------------------------------ the language


@cache
def owners() -> dict[str, Owner]:
    """Every mapping of the language by name, in the order in which the grammar reaches it."""
    found: dict[str, Owner] = {}

    def visit(shape: Shape | None) -> None:
        for owner in shape.owners.values() if shape else ():
            if _name(owner) not in found:
                found[_name(owner)] = owner
                for below in keys_of(owner).values():
                    visit(below)
                    visit(below.item)

    visit(TOP)
    return found


def _name(owner: Owner) -> str:
    return owner if isinstance(owner, str) else owner.__name__


def table(owner: Owner) -> str:
    """The reference table of one mapping."""
    lines = [f'<a id="{_anchor(owner)}"></a>', ""]
    if not isinstance(owner, str):
        kind = owner.model_fields.get("kind")
        head = f"`{kind.default}`: " if kind else ""
        first, *more = [" ".join(text.split()) for text in (owner.__doc__ or "").strip().split("\n\n")]
        lines += [f"{head}{first}", "", *(line for text in more for line in (text, ""))]
    own = {k: v for k, v in keys_of(owner).items() if owner not in ("stack", "entry") or k not in BLOCK_KEYS}
    rows = [row for key, shape in own.items() if (row := _row(owner, key, shape))]
    if rows:
        lines += ["| key | value | default | meaning |", "|---|---|---|---|", *rows, ""]
    else:
        lines += ["No keys of its own.", ""]
    return "\n".join(lines)


def _row(owner: Owner, key: str, shape: Shape) -> str | None:
    if key == "kind":
        return None
    model = _FILE_ONLY[owner] if isinstance(owner, str) else owner
    info = model.model_fields.get(key)
    if isinstance(owner, str) and key in _BEFORE_MERGING and (owner, key) != ("top", "norm"):
        default, meaning = _BEFORE_MERGING[key]
        if (owner, key) == ("entry", "layers"):
            default, meaning = "–", "makes the entry a group: these entries in a row, `repeat` times"
    else:
        assert info is not None, (owner, key)
        default, meaning = _default(info, shape), _meaning(info)
    return f"| `{key}` | {_value(shape, info)} | {default} | {meaning} |"


def _meaning(info: FieldInfo) -> str:
    text = info.description or ""
    rule = _derived(info)
    if rule:
        text = text.removesuffix(f"= {rule}").rstrip(" ;") or "its keys merge over the default"
    return text.replace("|", "\\|")


def _derived(info: FieldInfo) -> str | None:
    """The rule of a derived default: what a description says after its last `= `."""
    found = re.search(r"(?:^|; )= (.+)$", info.description or "")
    return found[1] if found else None


def _default(info: FieldInfo, shape: Shape) -> str:
    rule, value = _derived(info), info.default
    if rule:
        return rule
    if info.is_required():
        return "**required**"
    if value is None:
        return "`none`" if shape.removable else "–"
    if isinstance(value, BaseModel):
        kind = type(value).model_fields.get("kind")
        return f"`{kind.default}`" if kind else "all defaults"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`[{', '.join(value)}]`"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f"`{text.replace('e-0', 'e-')}`"


def _value(shape: Shape, info: FieldInfo | None) -> str:
    """What may stand at a place, in words."""
    annotation = info.annotation if info else None
    if get_origin(annotation) is Literal and int in shape.types:
        return ", ".join(f"`{value}`" for value in get_args(annotation))
    out = (
        ["[activation](#activations)"]
        if set(_ACTIVATIONS) <= set(shape.words)
        else [f"`{word}`" for word in shape.words]
    )
    types = set(shape.types)
    if {float, str} <= types:
        out.append("number > 0, quotient" if shape.name == "ratio" else "[scale](#scales)")
        types -= {float, str}
    below = " ≥ 1" if shape.name in ("window", "layers") else _bounds(annotation, info.metadata if info else ())
    names = {bool: "`true`, `false`", int: f"integer{below}", float: f"number{below}", str: "text"}
    out += [names[kind] for kind in names if kind in types]
    if _NORMS.issubset(shape.kinds):
        out.append("[norm](#norms)")
    else:
        out += [f"[{f'`{k}`' if k else 'mapping'}](#{_anchor(owner)})" for k, owner in shape.owners.items()]
    if shape.item is not None:
        out.append("a list of [entries](#table-entry)" if shape.name == "layers" else f"a list of {_item(shape.item)}")
    if shape.removable and "none" not in (*shape.words, *shape.kinds):
        out.append("`none`")
    return ", ".join(out)


def _item(shape: Shape) -> str:
    return ", ".join(f"`{word}`" for word in shape.words) or "numbers"


def _anchor(owner: Owner) -> str:
    return f"table-{_name(owner).lower()}"


def _bounds(annotation: Any, metadata: Any = ()) -> str:
    """The bounds of a number, as in ` ≥ 1`."""
    marks = [one for mark in metadata for one in getattr(mark, "metadata", [mark])]
    if any(isinstance(one, Gt) for one in marks) and annotation is int:
        return " ≥ 1"
    signs = {Gt: ("> ", "gt"), Ge: ("≥ ", "ge"), Lt: ("< ", "lt"), Le: ("≤ ", "le")}
    if found := [f"{signs[type(m)][0]}{getattr(m, signs[type(m)][1]):g}" for m in marks if type(m) in signs]:
        return f" {', '.join(found)}"
    if get_origin(annotation) is Annotated:
        base, *marks = get_args(annotation)
        return _bounds(base, marks) or _bounds(base)
    return next((below for arg in get_args(annotation) if (below := _bounds(arg))), "")


# -------------------------------------------------------------------------------------------------------- diagnostics

_STAGES = {
    "A0": "Reading the file",
    "A1": "Keys, kinds and values",
    "A2": "Numbers of a layer",
    "A3": "Positions and masks",
    "A4": "Wiring",
    "A5": "Feed-forward",
    "A6": "Stacks and heads",
    "A7": "Overrides",
    "A8": "Totals",
}


def codes() -> str:
    """Every code and its condition, by stage."""
    return "| code | condition |\n|---|---|\n" + "".join(
        f"| [{c}](#{c.lower()}) | {what} |\n" for c, what in CODES.items()
    )


def example() -> str:
    """What is printed of one golden file."""
    return f"```text\n{(GOLDENS / 'A202.txt').read_text().strip()}\n```\n"


def diagnostics() -> str:
    """Every code with its condition, and what its golden files say: what `archspec check` prints about a spec."""
    out, stage = [], ""
    for code, what in CODES.items():
        if code[:2] != stage:
            stage = code[:2]
            out.append(f"## {_STAGES[stage]}\n\n")
        out.append(f"### {code}\n\n{what[0].upper()}{what[1:]}.\n\n")
        for said in sorted(GOLDENS.glob(f"{code}*.txt"), key=lambda path: path.stem):
            out.append("```text\n" + said.read_text().strip("\n") + "\n```\n\n")
    return "".join(out)


if __name__ == "__main__":
    sys.exit(main())
