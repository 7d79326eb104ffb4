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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-families", action="store_true", help="write docs/families.md from tests/test_families.py")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--write-families") and not hasattr(config, "workerinput"):
        from families_table import FamiliesTable
        from parity import cases

        config.pluginmanager.register(FamiliesTable({c.name: c.reason for c in cases() if c.reason}))
