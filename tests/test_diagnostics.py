"""Every code has a golden file in `tests/diagnostics`: a spec with the fault, and what is said about it.

A comment at the head of a spec gives what a file cannot say: `# --set path=value`, or `# counted: n` for the totals.
`python tests/test_diagnostics.py` writes the golden files anew; read the difference before committing it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from archspec.cli.main import INTERRUPTED
from archspec.compiler.check.expect import expect_missed
from archspec.compiler.resolve import resolve
from archspec.diagnostics import CODES, Diagnostic, Place
from archspec.errors import ArchspecError, SpecError

FOLDER = Path(__file__).parent / "diagnostics"
ROOT = FOLDER.parents[1]
CASES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def found(case: str) -> tuple[Diagnostic, ...]:
    """The diagnostics of one file, read from within its folder."""
    path = Path(f"{case}.yaml")
    text = path.read_bytes().decode("latin-1")
    try:
        resolved = resolve(path, re.findall(r"(?m)^# --set (.+)$", text))
    except SpecError as error:
        return error.diagnostics
    counted = re.search(r"(?m)^# counted: (\d+)$", text)
    missed = expect_missed(resolved.spec, resolved.places, int(counted[1])) if counted else None
    return (missed,) if missed else resolved.warnings


def rendered(case: str) -> str:
    return "".join(f"{d.render()}\n\n" for d in found(case))


def prepare(case: str, folder: Path) -> None:
    """The file of a case where it is read, and what it names."""
    shutil.copy(FOLDER / f"{case}.yaml", folder)
    if case == "A004":
        with (folder / "large.yaml").open("wb") as large:
            large.truncate(100 << 20)  # sparse


@pytest.mark.parametrize("case", CASES)
def test_golden(case, tmp_path, monkeypatch):
    prepare(case, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert rendered(case) == (FOLDER / f"{case}.txt").read_text("utf-8")
    assert {d.code for d in found(case)} == {case[:4]}


def test_every_code_has_a_golden_file_and_is_used():
    assert {case[:4] for case in CASES} == set(CODES)
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "compiler").rglob("*.py"))
    assert set(re.findall(r'"(A\d{3})"', sources)) == set(CODES)


def test_the_exit_codes_in_the_documents_are_all_there_are():
    kinds = [ArchspecError, *ArchspecError.__subclasses__()]
    said = (ROOT / "docs" / "diagnostics.md").read_text("utf-8").partition("Exit codes:")[2].partition("`archspec")[0]
    codes = {0, INTERRUPTED, 128 + signal.SIGTERM, 128 + signal.SIGPIPE, *(kind.exit_code for kind in kinds)}
    assert {int(code) for code in re.findall(r"\*\*(\d+)\*\*", said)} == codes


def test_a_record_is_plain():
    diagnostic = Diagnostic("A202", "no", Place("a.yaml", 3, 5, 8, "    kv_heads: 4"), "yes")
    assert diagnostic.record() == {
        "code": "A202",
        "severity": "error",
        "message": "no",
        "file": "a.yaml",
        "line": 3,
        "column": 5,
        "length": 8,
        "notes": [],
        "remedy": "yes",
    }


def test_carets_stand_under_the_span():
    for text, column, length in [
        ("\tkey: value", 7, 5),
        ("x" * 1000 + "bad" + "y" * 1000, 1001, 3),
        ("a: 'é' # ü", 4, 3),
    ]:
        _, _, line, carets = Diagnostic("A103", "no", Place("f", 1, column, length, text)).render().split("\n")
        start = carets.index("^")
        assert line[start : start + carets.count("^")] == text[column - 1 : column - 1 + length]
        assert len(line) < 200


def test_colour_is_only_there_when_asked_for():
    diagnostic = Diagnostic("A403", "no", Place("f", 1, 1, 1, "x"), severity="warning")
    assert "\x1b" not in diagnostic.render()
    assert re.sub(r"\x1b\[[0-9;]*m", "", diagnostic.render(color=True)) == diagnostic.render()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        for name in CASES:
            prepare(name, Path(scratch))
            (FOLDER / f"{name}.txt").write_text(rendered(name), "utf-8")
