"""Tables on terminals of every width: what is turned, what is wrapped, and what stays whole."""

from __future__ import annotations

import pytest

from archspec.api import load, zoo
from archspec.compiler.fits import bytes_of
from archspec.exporters.count_tables import tables
from archspec.exporters.tables import Column, Table
from archspec.exporters.units import exact


def numbers(*widths: int) -> Table:
    """Two rows of numbers with so many digits."""
    table = Table(
        "Numbers", [Column("who", ""), *(Column(f"n{i}", f"number {i}", exact, True) for i in range(len(widths)))]
    )
    table.rows += [("first", *(10**w for w in widths)), ("second", *(2 * 10**w for w in widths))]
    return table


def test_numbers_that_are_too_wide_stand_side_by_side() -> None:
    wide = numbers(12, 12, 12, 3)
    assert wide.text(width=80).splitlines()[1].split() == ["number", "0", "number", "1", "number", "2", "number", "3"]
    assert wide.text(width=50).splitlines() == [
        "Numbers",
        "                      first             second",
        "number 0  1,000,000,000,000  2,000,000,000,000",
        "number 1  1,000,000,000,000  2,000,000,000,000",
        "number 2  1,000,000,000,000  2,000,000,000,000",
        "number 3              1,000              2,000",
    ]


def test_a_total_is_no_column() -> None:
    """What stands below a rule belongs to what is above it; such a table is not turned."""
    wide = numbers(12, 12, 12)
    wide.rows += [None, ("total", 1, 2, 3)]
    assert "  number 0  1,000,000,000,000" in wide.text(width=40).splitlines()


def test_first_cells_of_words_are_wrapped_and_paths_are_not() -> None:
    def table(name: str) -> list[str]:
        t = Table("", [Column("what", "what"), Column("n", "n", exact, True), Column("m", "m", exact, True)])
        t.rows += [(name, 10**9, 10**9), None, ("all", 1, 2)]
        return t.text(width=48).splitlines()

    assert table("weights and gradients and state")[:4] == [
        "what                            n              m",
        "weights and         1,000,000,000  1,000,000,000",
        "  gradients and",
        "  state",
    ]
    assert table("a.path.that.is.a.single.word.long")[2:4] == [
        "a.path.that.is.a.single.word.long",
        "  1,000,000,000  1,000,000,000",
    ]


@pytest.mark.parametrize(("width", "lines"), [(None, 3), (60, 4), (100, 2), (120, 2), (200, 2)])
def test_notes_are_as_wide_as_the_terminal_up_to_120(width: int | None, lines: int) -> None:
    table = Table("T", [Column("a", "")])
    table.notes.append(" ".join(["eight888"] * 22))  # 197 characters
    told = table.text(width=width).splitlines()[1:]
    assert len(told) == lines
    assert max(map(len, told)) <= min(width or 80, 120)


@pytest.mark.parametrize("name", zoo())
def test_layers_and_caches_of_every_published_model_stand_under_their_heads_at_80_columns(name: str) -> None:
    """No row is broken in two: a line for each layer, or for each number of a layer, but for cells that are wrapped."""
    counts = load(name).count(precision="bf16")
    for table in tables(counts, fit=counts.fits(bytes_of("24GiB"))):
        lines = table.text(width=80).splitlines()
        assert max(map(len, lines)) <= 80
        if table.title == "Layers" or table.title.startswith("KV cache"):
            assert len(lines) <= 12
            assert not any(line.strip() == str(row[0]) for line in lines for row in table.rows if row), lines


def test_the_list_has_a_line_for_every_model_at_120_columns() -> None:
    from click.testing import CliRunner

    from archspec.cli.list import command

    told = CliRunner().invoke(command, [], env={"COLUMNS": "120"}).stdout.splitlines()
    assert len(told) == len(zoo()) + 1
    narrow = CliRunner().invoke(command, [], env={"COLUMNS": "80"}).stdout.splitlines()
    assert max(map(len, narrow)) <= 80
