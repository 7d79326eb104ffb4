"""docs/families.md, from a test run: `pytest tests/test_families.py --write-families`."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

PATH = Path(__file__).parents[1] / "docs" / "families.md"
#: Tests, in the order of the columns.
COLUMNS = {
    "test_imports": "imports",
    "test_parameters": "parameters",
    "test_logits": "logits",
    "test_padded": "padded",
    "test_cached": "cached",
    "test_onnx": "ONNX",
    "test_written_as_hf": "written back",
}
HEAD = """\
# Families

What `archspec import` reads. Each row is a tiny random checkpoint that transformers saved: imported, built in float64, loaded, and
held against the model it came from. A config names a class, and the class says the head: that of a language model, causal or
masked, labels of a text or of every token, or none. A pooler is said by hand (`head: pooler`): a class that may have one does not
tell.

This page is written by the test run that checks it:

```text
pytest tests/test_families.py --write-families
```

- **imports**: every key of its config.json is read or known to change nothing, and the spec compiles.
- **parameters**: as many as transformers has, all of them found in the checkpoint. The number is the tiny model's. Selection biases
  are buffers here; in afmoe, transformers holds them as parameters that are not trained, and they are in the number. A pooler
  beside no head is not.
- **logits**: the largest difference to transformers in float64, all its float32 casts lifted; at most 1e-9. Attention is
  transformers' eager one; for falcon_alibi it is sdpa, since the eager one of transformers 5.24 adds the ALiBi bias twice.
- **padded**: the same with padding in what an encoder reads, at its tokens: on the right, and on the left where transformers then
  counts positions as if it were not there (BERT's tables count it, a padded text is another there; here it is the same).
- **cached**: decoding in pieces gives the full forward pass.
- **ONNX**: the exported graphs, whole and cached where there is a decoder, on ONNX Runtime in float32, within 1e-4.
- **written back**: `archspec build --as hf` gives a checkpoint that transformers loads with the same logits. A blank: this
  family has no writer.
"""


class FamiliesTable:
    """Collects what became of each case and writes the table at the end."""

    def __init__(self, reasons: dict[str, str]) -> None:
        self.reasons = reasons
        self.rows: dict[str, dict[str, str]] = defaultdict(dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        match = re.search(r"test_families\.py::(\w+)\[(.+)\]$", report.nodeid)
        if match is None or (report.when != "call" and report.passed):
            return
        measured = dict(report.user_properties).get("measured", "✓")
        self.rows[match[2]][match[1]] = str(measured) if report.passed else "✗"

    def pytest_sessionfinish(self) -> None:
        said = {name: found for name, found in self.rows.items() if name not in self.reasons}
        whole = sum("✗" not in found.values() for found in said.values())
        lines = [
            HEAD,
            f"{whole} of {len(said)} rows hold in full.",
            "",
            f"| family | {' | '.join(COLUMNS.values())} |",
            f"|---|{'---|' * len(COLUMNS)}",
        ]
        lines += [
            f"| {name} | {' | '.join(found.get(test, '') for test in COLUMNS)} |"
            for name, found in sorted(said.items())
        ]
        lines += ["", "## What cannot be said", "", "An import of these is refused with an error.", ""]
        lines += ["| family | why |", "|---|---|"]
        lines += [f"| {name} | {reason} |" for name, reason in sorted(self.reasons.items())]
        PATH.write_text("\n".join(lines) + "\n", encoding="utf-8")


def named() -> list[str]:
    """The families that the table has rows for."""
    return re.findall(r"^\| (?!family)([^|]+?) \|", PATH.read_text(encoding="utf-8"), re.MULTILINE)
