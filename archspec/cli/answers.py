"""What `archspec run` prints: tokens as they come, labels, vectors; or all of it as one JSON record."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from heapq import nlargest
from math import hypot
from typing import TYPE_CHECKING, Any

import click

from archspec.errors import UsageError

from .common import color, say

if TYPE_CHECKING:
    from archspec.exporters.runtime.generation import Step
    from archspec.exporters.runtime.pace import Pace
    from archspec.exporters.runtime.pooling import Way
    from archspec.exporters.runtime.sampling import Logits
    from archspec.exporters.runtime.session import Runtime

#: New tokens where nobody says how many.
DEFAULT_MOST = 128
#: Labels, tokens or numbers that are shown of all.
SHOWN = 5


def write(runtime: Runtime, asked: Any, how: dict[str, Any], as_json: bool, stats: bool) -> None:
    """Text after a prompt or a conversation. how: arguments of `Runtime.generate`."""
    answer = runtime.write(asked, **_bounded(runtime, asked, how))
    _tell(answer, (lambda text: {"text": text, "finish": answer.finish}) if as_json else None)
    if stats:
        _report(answer.pace)


def generate(
    runtime: Runtime, prompts: list[list[int]], sources: list[list[int]], how: dict[str, Any], as_json: bool, stats: bool
) -> None:  # fmt: skip
    """The new tokens of a batch."""
    from archspec.exporters.runtime.pace import Pace

    pace = Pace(sum(map(len, prompts + sources)))
    begun = len(runtime.begins) if how["decoder_start"] is None else 1
    how = _bounded(runtime, max(map(len, prompts), default=begun), how)
    steps = pace.over(runtime.generate(prompts or None, source=sources or None, **how))
    rows = max(len(prompts), len(sources))
    if as_json or rows > 1:
        _batch(steps, rows, as_json)
    else:
        made = (str(token) for step in steps for token in step.tokens if token is not None)
        _tell((("," if i else "") + token for i, token in enumerate(made)), None)
    if stats:
        _report(pace)


def say_unapplied(runtime: Runtime) -> None:
    """On stderr, what the model's authors would have done otherwise."""
    if runtime.unapplied:
        said = ", ".join(f"{k} {v}" if isinstance(v, int | float | str) else k for k, v in runtime.unapplied.items())
        say(f"not applied of generation_config.json: {said}", err=True)


def _bounded(runtime: Runtime, prompt: Any, how: dict[str, Any]) -> dict[str, Any]:
    """With a number of new tokens where nobody says how many. prompt: as `Runtime.room` takes it."""
    if how["max_new_tokens"] is not None:
        return how
    room = None if how["slide"] else runtime.room(prompt)
    return how | {"max_new_tokens": DEFAULT_MOST if room is None else max(1, min(DEFAULT_MOST, room))}


def _batch(steps: Iterator[Step], rows: int, as_json: bool) -> None:
    """The new tokens of each row when all are there, a line each, or as JSON; what was made is told even where an error follows."""
    made: list[list[int]] = [[] for _ in range(rows)]
    ended: Sequence[str | None] = [None] * rows
    try:
        for step in steps:
            ended = step.ended
            for row, token in zip(made, step.tokens, strict=True):
                row += [] if token is None else [token]
    finally:
        if as_json:
            records = [{"ids": row, "finish": finish} for row, finish in zip(made, ended, strict=True)]
            click.echo(json.dumps(records if rows > 1 else records[0]))
        else:
            for row in made:
                click.echo(",".join(map(str, row)))


def _tell(pieces: Iterator[str], record: Callable[[str], object] | None) -> None:
    """Print each piece as it comes, or the JSON record of all of them; what was made is told even where an error follows."""
    said: list[str] = []
    try:
        for piece in pieces:
            said.append(piece)
            if record is None:
                click.echo(piece, nl=False)
                sys.stdout.flush()
    finally:
        if record is not None:
            click.echo(json.dumps(record("".join(said)), ensure_ascii=False))
        elif said:
            click.echo()


def read(
    runtime: Runtime, texts: list[list[int]], sources: list[list[int]] | None, pooling: Way | None, as_json: bool
) -> None:
    """What the head of a model that does not generate gives for each text."""
    from archspec.ops.head import LmHead, NoHead, PoolerHead

    head = runtime.folder.model.head
    if isinstance(head, NoHead | PoolerHead) and runtime.form != "encoder_decoder":
        _show([{"vector": vector} for vector in runtime.embed(texts, pooling).tolist()], as_json)
        return
    given = runtime.forward(texts, source=sources)
    rows = [row[: len(text)] if row.ndim > 1 else row for row, text in zip(given, texts, strict=True)]
    if isinstance(head, PoolerHead):
        _show([{"vector": row.tolist()} for row in rows], as_json)
    elif isinstance(head, NoHead):  # of all positions
        _show([{"vectors": row.tolist()} for row in rows], as_json)
    else:
        chances: list[Any] = [_labels(row) for row in rows]
        if as_json and isinstance(head, LmHead):  # a vocabulary at each position is nothing to read
            chances = [[_of_likeliest(place) for place in row] for row in chances]
        _show(chances, as_json)


def _labels(logits: Logits) -> Any:
    """Probabilities; where there is one label, as a reranker has it, the score that it is."""
    from archspec.exporters.runtime.sampling import softmax

    return {"score": logits[..., 0].tolist()} if logits.shape[-1] == 1 else softmax(logits).tolist()


def _of_likeliest(place: list[float]) -> dict[str, Any]:
    ids = _likeliest(place)
    return {"ids": ids, "probabilities": [place[i] for i in ids]}


def _show(results: list[Any], as_json: bool) -> None:
    """A result for each text: as JSON whole, else its vector or its likeliest labels or tokens; those of positions a line each."""
    if as_json:
        click.echo(json.dumps(results if len(results) > 1 else results[0]))
        return
    blocks = []
    for result in results:
        if isinstance(result, dict) and "score" in result:
            scores = result["score"] if isinstance(result["score"], list) else [result["score"]]
            blocks.append("\n".join(f"score {score:.4f}" for score in scores))
        elif isinstance(result, dict):
            vectors = result["vectors"] if "vectors" in result else [result["vector"]]
            blocks.append("\n".join(map(_vector, vectors)))
        else:
            rows = result if isinstance(result[0], list) else [result]
            best = ([f"{label}: {100 * row[label]:.2f} %" for label in _likeliest(row)] for row in rows)
            blocks.append("\n".join("  ".join(shares) for shares in best))
    click.echo(("\n\n" if any("\n" in block for block in blocks) else "\n").join(blocks))


def _vector(numbers: Sequence[float]) -> str:
    """384 numbers, norm 1.0000: 0.034512 … and the first of them"""
    first = " ".join(f"{x:.6f}" for x in numbers[:SHOWN])
    return f"{len(numbers)} numbers, norm {hypot(*numbers):.4f}: {first}{' …' if len(numbers) > SHOWN else ''}"


def _likeliest(row: list[float]) -> list[int]:
    return nlargest(SHOWN, range(len(row)), key=row.__getitem__)


def fill(runtime: Runtime, text: str, as_json: bool) -> None:
    words = runtime.text
    mask = words.special("mask_token")
    if mask is None:
        raise UsageError("the tokenizer has no mask token", "that of an encoder with an lm head has one")
    found = runtime.fill_mask([words.encode(text)], mask)
    records = [
        {"column": f.column, "tokens": [words.token(t) for t in f.tokens], "probabilities": list(f.probabilities)}
        for f in found
    ]
    if as_json:
        click.echo(json.dumps(records, ensure_ascii=False))
        return
    for f in found:
        for token, p in zip(f.tokens, f.probabilities, strict=True):
            click.echo(f"{100 * p:6.2f} %  {words.token(token)}")


def classify(runtime: Runtime, text: str, as_json: bool) -> None:
    from archspec.ops.head import ClassifierHead

    if not isinstance(runtime.folder.model.head, ClassifierHead):
        raise UsageError(f"{runtime.spec.name} has no labels", "a model with a classifier head has")
    _show([_labels(row) for row in runtime.forward([runtime.text.encode(text)])], as_json)


def embed(runtime: Runtime, texts: Sequence[str], pooling: Way | None, as_json: bool) -> None:
    from archspec.exporters.runtime.pooling import unit

    vectors = runtime.embed([runtime.text.encode(t) for t in texts], pooling)
    if as_json:
        records = [{"text": t, "vector": v.tolist()} for t, v in zip(texts, vectors, strict=True)]
        click.echo(json.dumps(records, ensure_ascii=False))
    elif len(texts) == 1:
        click.echo(_vector(vectors[0].tolist()))
    else:
        bold = (lambda s: click.style(s, bold=True)) if color(sys.stdout) else str
        click.echo(bold("cosine similarity to the first"))
        for text, similarity in zip(texts, unit(vectors) @ unit(vectors)[0], strict=True):
            click.echo(f"{similarity:7.4f}  {text}")


def _report(pace: Pace) -> None:
    told = f"tokens: {pace.read} in the prompt, {pace.made} made, the first after {1000 * pace.wait:.0f} ms"
    click.echo(told if pace.rate is None else f"{told}, then {pace.rate:,.1f} a second", err=True)
