"""What many tests start from."""

from __future__ import annotations

import pytest

EXAMPLE = """\
archspec: 1
name: example
vocab_size: 1000
context_length: 128
d_model: 64
norm: {kind: rmsnorm, eps: 1e-6}
decoder:
  layers: 2
  attention: {heads: 4, position: rope}
  ffn: {kind: gated, width: 172, activation: silu}
head: {tied: true}
"""


@pytest.fixture
def example() -> str:
    """A small complete spec, for a test to change."""
    return EXAMPLE
