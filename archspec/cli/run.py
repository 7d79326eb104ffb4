"""archspec run"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from archspec.errors import UsageError

from . import answers
from .common import say

if TYPE_CHECKING:
    from archspec.exporters.runtime.device import Device
    from archspec.exporters.runtime.folder import ExportFolder
    from archspec.exporters.runtime.pooling import Way

#: What is asked for, by the way of asking; `--ids` asks for what the model's head gives.
ASKED = {
    "a PROMPT": "text", "--chat": "text", "--source": "text", "--embed": "vectors", "--classify": "labels",
    "--fill": "masked tokens",
}  # fmt: skip
#: Options that go with one thing that is asked for; all others go with each.
GOES_WITH = {
    **dict.fromkeys(
        ("max_new_tokens", "slide", "temperature", "top_k", "top_p", "seed", "start", "cuda_graph"), "text"
    ),
    "pooling": "vectors",
}


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
@click.option(
    "--pooling",
    type=click.Choice(["mean", "first", "last"]),
    help="Of a text's tokens into its vector.  [default: as the folder says, else mean]",
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
    embed: tuple[str, ...], pooling: Way | None, classify: str | None, source: tuple[str, ...], start: int | None,
    max_new_tokens: int | None, slide: bool, temperature: float, top_k: int | None, top_p: float | None, seed: int | None,
    device: Device, threads: int | None, check: bool, cuda_graph: bool, as_json: bool, stats: bool,
) -> None:  # fmt: skip
    """Run an exported FOLDER on ONNX Runtime: generate after a PROMPT (`-` reads stdin), chat, fill masks, embed.

    \b
    Example:
      archspec run smollm2-onnx --chat "What is the capital of France?"
      archspec run gpt2-onnx --ids 464,3139,286 -n 5
      archspec run minilm-onnx --embed "a cat" --embed "a kitten" --embed "a bond"
    """
    from archspec.exporters.runtime.demands import demand_source
    from archspec.exporters.runtime.folder import open_folder
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
    Sampling(temperature, top_k, top_p, seed)  # refused before anything is loaded
    prompts, sources = (
        [_numbers(row, name) for row in given] for name, given in (("--ids", ids), ("--source", source))
    )
    opened = open_folder(folder, check=check)
    asked = ASKED.get(task) or _given(opened)
    _demand_use(asked, task)
    runtime = Runtime(opened, device, threads, cuda_graph)
    if stats:
        say(f"{runtime.spec.name} on {runtime.device.device.upper()}: {runtime.device.why}", err=True)
    if task == "--embed":
        answers.embed(runtime, embed, pooling, as_json)
    elif task == "--fill":
        answers.fill(runtime, fill or "", as_json)
    elif task == "--classify":
        answers.classify(runtime, classify or "", as_json)
    elif asked != "text":
        demand_source(opened, sources or None)
        answers.read(runtime, prompts, sources or None, pooling, as_json)
    else:
        how = {
            "max_new_tokens": max_new_tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed,
            "decoder_start": start, "slide": slide,
        }  # fmt: skip
        answers.say_unapplied(runtime)
        if task in ("--ids", "--source"):
            answers.generate(runtime, prompts, sources, how, as_json, stats)
        else:
            text = _standard_input() if prompt == "-" else prompt or ""
            answers.write(runtime, _messages(chat, system) if chat is not None else text, how, as_json, stats)


def _given(folder: ExportFolder) -> str:
    """What a model gives for token ids."""
    from archspec.ops.head import ClassifierHead, LmHead

    head = folder.model.head
    if isinstance(head, LmHead):
        return "text" if folder.generates else "masked tokens"
    return "labels" if isinstance(head, ClassifierHead) else "vectors"


def _demand_use(asked: str, task: str) -> None:
    """Raises UsageError for options that were given and go with something else than what is asked for."""
    context = click.get_current_context()
    idle = {
        max(option.opts, key=len): GOES_WITH[option.name]
        for option in context.command.params
        if option.name in GOES_WITH
        and GOES_WITH[option.name] != asked
        and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    }
    if idle:
        wanted = " or ".join(dict.fromkeys(idle.values()))
        raise UsageError(
            f"{', '.join(idle)} would do nothing: {task} asks for {asked} here",
            f"leave {'it' if len(idle) == 1 else 'them'} out; what asks for {wanted} takes {'it' if len(idle) == 1 else 'them'}",
        )


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
