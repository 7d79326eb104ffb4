"""archspec init"""

from __future__ import annotations

import re
from pathlib import Path
from shlex import quote

import click

from archspec.errors import UsageError

from .common import write_file

STARTER = """\
# A decoder-only Transformer. `archspec check` says what is wrong, `archspec show` what everything became.
archspec: 1                      # version of the language
name: {name}

vocab_size: 32000                # rows of the token table
context_length: 2048             # the longest run
d_model: 512                     # width of the residual stream
norm: {{kind: rmsnorm, eps: 1e-5}} # or layernorm; every norm starts from this one

decoder:                         # encoder: sees both sides; both of them: an encoder-decoder
  layers: 8                      # a number, or a list of layers that differ
  placement: pre                 # where norms stand: pre, post, sandwich, branch, none
  attention:
    heads: 8
    kv_heads: 4                  # grouped-query attention; leave it out for one per head
    position: rope               # or put `position: learned` under `embedding:`
    # window: 1024               # see the last 1,024 tokens only
    # qk_norm: {{over: head}}
  ffn:
    kind: gated                  # gated (SwiGLU and its kin) or mlp (two linears)
    width: {{ratio: 8/3, multiple_of: 64}}
    activation: silu

head: {{tied: true}}               # the output layer is the token table

# dropout: {{residual: 0.1}}
# init: {{kind: normal, std: 0.02, residual: depth_scaled}}
# expect: {{parameters: 123456, source: "where that number comes from"}}
"""


@click.command("init")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--like", metavar="NAME", help="Start from a zoo spec instead: its text, ready to be changed.")
@click.option("--force", is_flag=True, help="Overwrite the file.")
def command(path: Path, like: str | None, force: bool) -> None:
    """Write a commented starter spec.

    \b
    Example:
      archspec init my.yaml
      archspec init my-gpt.yaml --like gpt2
    """
    from archspec.compiler.source import name_like

    name = name_like(path.stem) or "my-model"
    text = _like(like, name) if like else STARTER.format(name=name)
    if path.suffix not in (".yaml", ".yml"):
        raise UsageError(f"{path} does not end in .yaml", f"archspec init {quote(f'{path}.yaml')}")
    write_file(path, text.encode(), overwrite=force)
    click.echo(f"wrote {path}\nnext: archspec check {quote(str(path))}")


def _like(like: str, name: str) -> str:
    """A zoo spec's text under a new name, without what is a fact about the published model alone."""
    from archspec.compiler.source import zoo_text

    text = zoo_text(like)
    text = re.sub(r"(?m)^name:.*$", f"name: {name}", text)
    text = re.sub(r"(?m)^expect:.*\n(?:[ \t]+.*\n)*", "", text)
    text = re.sub(r"(?m)^about:.*\n(?:[ \t]+.*\n)*", "", text)
    return f"# Started from {like}. `archspec show {like}` prints it complete.\n{text}"
