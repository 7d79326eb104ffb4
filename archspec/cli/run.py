"""archspec run"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from heapq import nlargest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from archspec.errors import UsageError

from .common import color, say

if TYPE_CHECKING:
    from archspec.exporters.runtime.generation import Step
    from archspec.exporters.runtime.pace import Pace
    from archspec.exporters.runtime.sampling import Sampling
    from archspec.exporters.runtime.session import Runtime

#: New tokens where nobody says how many.
DEFAULT_MOST = 128
#: Labels or tokens that are shown of all.
SHOWN = 5


@click.command("run")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("prompt", required=False)
@click.option("--chat", metavar="TEXT", help="Ask through the tokenizer's chat template.")
@click.option("--system", metavar="TEXT", help="A system message before --chat.")
@click.option(
    "--ids",
    metavar="1,2,3",
    multiple=True,
    help="Token ids instead of text: continued, or what the head of other models gives. Repeatable: a batch.",
)
@click.option("--fill", metavar="TEXT", help="Predict the masked tokens of a text (encoders).")
@click.option(
    "--embed",
    metavar="TEXT",
    multiple=True,
    help="The vector of a text (models without a head or with a pooler). Repeatable: similarities.",
)
@click.option("--classify", metavar="TEXT", help="The likeliest labels of a text (models with a classifier).")
@click.option(
    "--source", metavar="1,2,3", multiple=True, help="Token ids for the encoder of an encoder-decoder. Repeatable."
)
@click.option("--start", type=int, metavar="ID", help="The token that an encoder-decoder's answer starts from.")
@click.option(
    "-n",
    "--max-new-tokens",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop after so many.  [default: 128, or what the context leaves]",
)
@click.option("--slide", is_flag=True, help="At the context's end drop the first half of the text and go on.")
@click.option("--temperature", type=float, metavar="T", default=0.0, show_default=True, help="0 is greedy.")
@click.option("--top-k", type=int, metavar="K", help="Sample from the k likeliest tokens.")
@click.option(
    "--top-p", type=float, metavar="P", help="Sample from the smallest set of tokens that reaches this probability."
)
@click.option("--seed", type=int, metavar="N", help="Of the sampling.")
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="cuda means CUDA: never a silent fallback.",
)
@click.option("--threads", type=click.IntRange(min=1), metavar="N", help="CPU threads.  [default: one a core]")
@click.option(
    "--check", is_flag=True, help="Compare the weights too with the hash they were written with: reads all of them."
)
@click.option("--cuda-graph", is_flag=True, help="Record the step of one token as a CUDA graph (exports for ort).")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON record instead of text, and in it why a generation ended."
)
@click.option("--stats", is_flag=True, help="Say how fast it was, on stderr.")
def command(
    folder: Path, prompt: str | None, chat: str | None, system: str | None, ids: tuple[str, ...], fill: str | None,
    embed: tuple[str, ...], classify: str | None, source: tuple[str, ...], start: int | None, max_new_tokens: int | None,
    slide: bool, temperature: float, top_k: int | None, top_p: float | None, seed: int | None, device: str, threads: int | None,
    check: bool, cuda_graph: bool, as_json: bool, stats: bool,
) -> None:  # fmt: skip
    """Run an exported FOLDER on ONNX Runtime: generate after a PROMPT (`-` reads stdin), chat, fill masks, embed.

    \b
    Example:
      archspec run smollm2-onnx --chat "What is the capital of France?"
      archspec run gpt2-onnx --ids 464,3139,286 -n 5
      archspec run minilm-onnx --embed "a cat" --embed "a kitten" --embed "a bond"
    """
    from archspec.exporters.runtime.sampling import Sampling
    from archspec.exporters.runtime.session import Runtime

    texts = {"a PROMPT": prompt, "--chat": chat, "--fill": fill, "--embed": embed or None, "--classify": classify}
    task = _task({**texts, "--ids": ids or None, "--source": None if ids else source or None})
    idle = {"--top-k": top_k, "--top-p": top_p, "--seed": seed}
    if temperature == 0 and (given := [name for name, value in idle.items() if value is not None]):
        raise UsageError(
            f"greedy decoding has no use for {' and '.join(given)}", "say --temperature 1, or leave it out"
        )
    if system is not None and chat is None:
        raise UsageError("--system goes before --chat, and there is none", 'ask with --chat "…"')
    sampling = Sampling(temperature, top_k, top_p, seed)
    prompts, sources = (
        [_numbers(row, name) for row in given] for name, given in (("--ids", ids), ("--source", source))
    )
    runtime = Runtime.load(folder, device, threads, check=check, cuda_graph=cuda_graph)  # type: ignore[arg-type]
    if stats:
        say(f"{runtime.spec.name} on {runtime.device.device.upper()}: {runtime.device.why}", err=True)
    if task == "--embed":
        _embed(runtime, embed, as_json)
    elif task == "--fill":
        _fill(runtime, fill or "", as_json)
    elif task == "--classify":
        _classify(runtime, classify or "", as_json)
    elif task == "--ids" and not runtime.generates:
        if len(prompts) > 1:
            raise UsageError("several --ids are a batch to continue, and this model does not", "give one")
        _read(runtime, prompts[0], sources or None, as_json)
    elif task in ("--ids", "--source"):
        _tokens(runtime, prompts, sources, start, sampling, max_new_tokens, slide, as_json, stats)
    else:
        text = _standard_input() if prompt == "-" else prompt or ""
        asked = _messages(chat, system) if chat is not None else text
        _text(runtime, asked, sampling, max_new_tokens, slide, as_json, stats)


def _task(given: dict[str, object]) -> str:
    """The one thing that is asked for; `--source` may go with `--ids`."""
    asked = [name for name, value in given.items() if value is not None]
    if not asked:
        raise UsageError("there is nothing to do", 'give a PROMPT, --chat "…", --ids, --fill, --embed or --classify')
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)} are several things to do", "ask for one of them")
    return asked[0]


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"What comes on stdin is not UTF-8 text: {error}") from error


def _messages(chat: str, system: str | None) -> list[dict[str, str]]:
    before = [{"role": "system", "content": system}] if system else []
    return [*before, {"role": "user", "content": chat}]


def _numbers(text: str, option: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")] if "," in text else text.split()
    if not all(re.fullmatch("-?[0-9]+", part) for part in parts):
        raise UsageError(f"{option} {text!r} is no list of token ids", f"{option} 464,3139,286")
    return [int(part) for part in parts]


def _text(
    runtime: Runtime, asked: Any, sampling: Sampling, most: int | None, slide: bool, as_json: bool, stats: bool
) -> None:
    answer = runtime.write(asked, sampling=sampling, max_new_tokens=most or _most(runtime, asked, slide), slide=slide)
    _tell(answer, (lambda text: {"text": text, "finish": answer.finish}) if as_json else None)
    if stats:
        _report(answer.pace)


def _tokens(
    runtime: Runtime, prompts: list[list[int]], sources: list[list[int]], start: int | None, sampling: Sampling, most: int | None,
    slide: bool, as_json: bool, stats: bool,
) -> None:  # fmt: skip
    from archspec.exporters.runtime.pace import Pace

    pace = Pace(sum(map(len, prompts + sources)))
    longest = max(map(len, prompts)) if prompts else len(runtime.begins) if start is None else 1
    steps = runtime.generate(
        prompts or None, source=sources or None, decoder_start=start, max_new_tokens=most or _most(runtime, longest, slide),
        temperature=sampling.temperature, top_k=sampling.top_k, top_p=sampling.top_p, seed=sampling.seed, slide=slide,
    )  # fmt: skip
    steps, rows = pace.over(steps), max(len(prompts), len(sources))
    if as_json or rows > 1:
        _batch(steps, rows, as_json)
    else:
        made = (str(token) for step in steps for token in step.tokens if token is not None)
        _tell((("," if i else "") + token for i, token in enumerate(made)), None)
    if stats:
        _report(pace)


def _most(runtime: Runtime, prompt: Any, slide: bool) -> int:
    """New tokens where nobody says how many. prompt: as `Runtime.room` takes it."""
    room = None if slide else runtime.room(prompt)
    return DEFAULT_MOST if room is None else max(1, min(DEFAULT_MOST, room))


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


def _read(runtime: Runtime, ids: list[int], source: list[list[int]] | None, as_json: bool) -> None:
    """What the head of a model that does not generate gives for one text."""
    from archspec.exporters.runtime.sampling import softmax
    from archspec.ops.head import ClassifierHead, LmHead, PoolerHead

    head = runtime.folder.model.head
    if isinstance(head, ClassifierHead | LmHead):
        chances = softmax(runtime.forward([ids], source=source)[0]).tolist()
        if as_json and isinstance(head, LmHead):  # a vocabulary at each position is nothing to read
            best = [(row, _likeliest(row)) for row in chances]
            chances = [{"ids": ids, "probabilities": [row[i] for i in ids]} for row, ids in best]
        _chances(chances, as_json)
    elif runtime.form == "encoder_decoder":  # a pooler's vector, or those of all positions
        vectors = runtime.forward([ids], source=source)[0].tolist()
        _vectors([vectors] if isinstance(head, PoolerHead) else vectors, as_json)
    else:
        _vectors(runtime.embed([ids]).tolist(), as_json)


def _vectors(rows: list[list[float]], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"vector": rows[0]} if len(rows) == 1 else {"vectors": rows}))
        return
    for row in rows:
        click.echo(" ".join(f"{x:.6f}" for x in row))


def _chances(chances: list[Any], as_json: bool) -> None:
    """The likeliest labels or tokens of a text, or of each of its positions; as JSON all of them."""
    if as_json:
        click.echo(json.dumps(chances))
        return
    for row in chances if isinstance(chances[0], list) else [chances]:
        click.echo("  ".join(f"{label}: {100 * row[label]:.2f} %" for label in _likeliest(row)))


def _likeliest(row: list[float]) -> list[int]:
    return nlargest(SHOWN, range(len(row)), key=row.__getitem__)


def _fill(runtime: Runtime, text: str, as_json: bool) -> None:
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


def _classify(runtime: Runtime, text: str, as_json: bool) -> None:
    from archspec.exporters.runtime.sampling import softmax
    from archspec.ops.head import ClassifierHead

    if not isinstance(runtime.folder.model.head, ClassifierHead):
        raise UsageError(f"{runtime.spec.name} has no labels", "a model with a classifier head has")
    _chances(softmax(runtime.forward([runtime.text.encode(text)])[0]).tolist(), as_json)


def _embed(runtime: Runtime, texts: Sequence[str], as_json: bool) -> None:
    vectors = runtime.embed([runtime.text.encode(t) for t in texts])
    if as_json:
        click.echo(
            json.dumps(
                [{"text": t, "vector": v.tolist()} for t, v in zip(texts, vectors, strict=True)], ensure_ascii=False
            )
        )
    elif len(texts) == 1:
        click.echo(" ".join(f"{x:.6f}" for x in vectors[0]))
    else:
        bold = (lambda s: click.style(s, bold=True)) if color(sys.stdout) else str
        click.echo(bold("cosine similarity to the first"))
        for text, similarity in zip(texts, vectors @ vectors[0], strict=True):
            click.echo(f"{similarity:7.4f}  {text}")


def _report(pace: Pace) -> None:
    told = f"tokens: {pace.read} in the prompt, {pace.made} made, the first after {1000 * pace.wait:.0f} ms"
    click.echo(told if pace.rate is None else f"{told}, then {pace.rate:,.1f} a second", err=True)
