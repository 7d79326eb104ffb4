"""A corpus of bad specs: each gets a diagnostic, quickly, and one mistake is one diagnostic.

A file's name begins with the code it must get.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from archspec.compiler.resolve import resolve, resolve_text
from archspec.compiler.source import MAX_BYTES
from archspec.diagnostics import CODES, Diagnostic
from archspec.errors import SpecError

BAD = sorted((Path(__file__).parent / "bad").glob("*.yaml"))


def refusal(ref: str | Path, *overrides: str) -> tuple[Diagnostic, ...]:
    """The diagnostics of a spec that must be refused within two seconds."""
    start = time.monotonic()
    with pytest.raises(SpecError) as raised:
        resolve(ref, overrides)
    assert time.monotonic() - start < 2
    for diagnostic in raised.value.diagnostics:
        assert diagnostic.code in CODES
        assert diagnostic.render()
        assert "\x1b" not in diagnostic.render()
    return raised.value.diagnostics


def said_of(text: str) -> set[str]:
    """The codes a text is refused with; none if it is a spec."""
    try:
        resolve_text(text)
    except SpecError as error:
        return {d.code for d in error.diagnostics}
    return set()


def test_the_corpus_is_large():
    assert len(BAD) >= 60


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_one_mistake_is_one_diagnostic(path):
    assert [d.code for d in refusal(path)] == [path.stem[:4]]


def test_a_large_file_is_not_read(tmp_path):
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    assert [d.code for d in refusal(path)] == ["A004"]


def test_a_file_just_small_enough_is_read(tmp_path, example):
    path = tmp_path / "padded.yaml"
    path.write_text(example + "#" * (MAX_BYTES - len(example)), "utf-8")
    assert resolve(path).spec.name == "example"


def test_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "nowhere.yaml").symlink_to(tmp_path / "missing.yaml")
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    codes = {
        name: refusal(tmp_path / f"{name}.yaml")[0].code for name in ("pipe", "folder", "nowhere", "loop", "other")
    }
    assert codes == {"pipe": "A003", "folder": "A003", "nowhere": "A001", "loop": "A002", "other": "A001"}
    assert refusal("/dev/zero")[0].code == "A003"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file(tmp_path, example):
    path = tmp_path / "secret.yaml"
    path.write_text(example, "utf-8")
    path.chmod(0)
    assert refusal(path)[0].code == "A002"


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs a file that opens and cannot be read")
def test_a_file_that_fails_while_it_is_read():
    assert refusal("/proc/self/mem")[0].code == "A002"


@pytest.mark.parametrize("ref", ["gpt3", "", "..", "GPT2", "a b", "\0", "gpt2\n", "x" * 5000])
def test_no_such_name_in_the_zoo(ref):
    assert refusal(ref)[0].code == "A001"


@pytest.mark.parametrize("ref", ["a\0b.yaml", "x" * 5000 + ".yaml", "./nope.yaml", "~/nope.yaml"])
def test_no_such_path(ref):
    assert refusal(ref)[0].code in ("A001", "A002")


def test_a_misspelt_name_is_put_right():
    assert "`gpt2`" in (refusal("gpt-2")[0].remedy or "")


def test_a_long_chain_of_extends_ends(tmp_path, example):
    for n in range(40):
        (tmp_path / f"{n}.yaml").write_text(example + f"extends: ./{n + 1}.yaml\n", "utf-8")
    assert refusal(tmp_path / "0.yaml")[-1].code == "A020"


@pytest.mark.parametrize(
    "step", ["not", "=", "=1", "decoder", "decoder.layers=", "decoder.layers=[", "decoder.layers=2:30"]
)
def test_bad_overrides(step):
    assert len(refusal("gpt2", step)) == 1


def test_any_cut_and_any_byte_gets_a_diagnostic(example):
    """Half a file, or a file with a byte changed, is a spec or is refused; nothing else."""
    for at in range(0, len(example), 3):
        for text in (example[:at], example[:at] + "\x07" + example[at + 1 :], example[:at] + "{" + example[at + 1 :]):
            assert said_of(text) <= set(CODES)
