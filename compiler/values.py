"""Values written otherwise: the words of other tools, and what is nearly a number, a list or `none`. Nothing here reports."""

from __future__ import annotations

import re

from archspec.diagnostics import listing

from . import elsewhere
from .grammar import Shape, keys_of
from .meant import by_name, section
from .nodes import Node

_INSTEAD = by_name(elsewhere.INSTEAD)
_POSITIONS = {"embedding": keys_of("top")["embedding"], "attention": keys_of("block")["attention"]}


def other_section(word: str, shape: Shape) -> str | None:
    """Where a kind of position goes that is none here: `rope` under attention, `learned` under embedding."""
    if shape.name != "position":
        return None
    homes = [name for name, section in _POSITIONS.items() if word in section.keys_of()["position"].kinds]
    return f"`{word}` goes under {listing(f'{home}:' for home in homes)}" if homes else None


_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_RATIO = r"[0-9.]+(?:/[0-9.]+)?"
_TIMES = (
    rf"(?P<left>{_RATIO})\s*(?:x|×|\*?\s*(?:d_model|hidden_size|d))|(?:d_model|d)\s*\*\s*(?P<right>{_RATIO})"
    r"|(?P<bare>[0-9.]+/[0-9.]+)"
)
_NOTHING = ("none", "null", "false", "no", "off")


def rewritten(node: Node, shape: Shape) -> str | None:
    """What to write instead of a value of the wrong type or out of its range, where that is plain."""
    value, name = node.value, shape.name
    if isinstance(value, bool | str) and (said := _said(shape, str(value).lower(), str(value))) is not None:
        return said
    if shape.removable and _says_nothing(node, shape):
        return f"write `{name}: none`" + (" for no window" if name == "window" else "")
    if isinstance(value, str):
        return _of_text(node, value, shape)
    if isinstance(value, float) and int in shape.types and value.is_integer():
        return f"write {int(value)}"
    if isinstance(value, list) and len(value) == 1 and int in shape.types and isinstance(value[0].value, int):
        return f"write {value[0].value}"
    if name == "entry" and isinstance(value, int):
        return f"a number of layers stands alone: `layers: {value}`"
    if name == "dropout" and isinstance(value, float):
        return f"say what is dropped: `dropout: {{residual: {value:g}}}`"
    return None


def _said(shape: Shape, word: str, shown: str) -> str | None:
    """What the table says of a word in this section."""
    found = _INSTEAD.get(f"{shape.name}.{word}") or _INSTEAD.get(f"{section(shape)}.{word}")
    return found.format(shown, key=shape.name) if found else None


def _says_nothing(node: Node, shape: Shape) -> bool:
    value = node.value
    if isinstance(value, str):
        return value.lower() in _NOTHING
    return value is False or (shape.name == "window" and value in (0, -1))


def _of_text(node: Node, value: str, shape: Shape) -> str | None:
    text, name, owned = value.strip(), shape.name, bool(shape.owners)
    if owned and (pair := re.match(r"(\w+):([^\s:]\S*)", text)) is not None:
        return f"a colon needs a space after it: `{pair[1]}: {pair[2]}`"
    if bool in shape.types and text.lower() in ("yes", "on", "y", "no", "off", "n"):
        return f"write {'true' if text.lower() in ('yes', 'on', 'y') else 'false'}: only these two words are boolean"
    if bool in shape.types and shape.item is not None and set(text) <= set(shape.item.words):
        return f"write `{name}: [{', '.join(text)}]`"
    if (said := _said(shape, "*", text)) is not None:
        return said
    if name == "width" and owned and (times := re.fullmatch(_TIMES, text)) is not None:
        return f"write `width: {{ratio: {times['left'] or times['right'] or times['bare']}}}`"
    return _number(node, text, shape)


def _number(node: Node, text: str, shape: Shape) -> str | None:
    """The number that a text spells."""
    if not {int, float} & set(shape.types):
        return None
    if node.quoted and re.fullmatch(_NUMBER, text):
        return "remove the quotes"
    if re.fullmatch(r"[0-9]{1,3}(?:,[0-9]{3})+", text):
        return f"write {text.replace(',', '')}"
    if float in shape.types and re.fullmatch(r"[0-9]+(?:\.[0-9]+)?\s*%", text):
        return f"write {float(text.rstrip('% ')) / 100:g}"
    short = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kKmMbB])", text)
    if short is None:
        return None
    power = "kmb".index(short[2].lower()) + 1
    decimal = f"{float(short[1]) * 1000**power:.0f}"
    return f"write {decimal}" + (f", or {float(short[1]) * 1024:.0f} if k is 1024" if power == 1 else "")
